package svg

import (
	"fmt"
	"math"
	"strings"
)

// Series are the values of a line, one for each place on the x axis. NaN is a gap.
type Series struct {
	Name   string
	Values []float64
	// Marked are the positions of values that a ring marks.
	Marked []int
}

// Lines shows values over partitions or times. Lines differ in their dashes; the legend shows them. More than four lines repeat dashes.
type Lines struct {
	Title  string
	X      []string // the names of places, in order
	Series []Series
	// Label returns a value as text; nil formats four digits.
	Label func(float64) string
	// Zero includes 0 in the y axis.
	Zero bool
}

// The sizes of line charts.
const (
	linesWidth  = 440
	linesHeight = 150.0
	linesLeft   = 64.0
	linesRight  = 10.0
	dashes      = 4
	maxPlace    = 24 // characters of the name of a place
	lineBreak   = 16.0
	pointLimit  = 60 // up to as many places, each value has a point
)

// Draw draws the lines.
func (l Lines) Draw() *Canvas {
	label := l.Label
	if label == nil {
		label = func(x float64) string { return fmt.Sprintf("%.4g", x) }
	}
	low, high := l.limits()
	bottom := plotTop + linesHeight
	c := &Canvas{Width: linesWidth, Height: int(bottom + labelHeight + lineBreak*float64(len(l.Series)) + 4), Class: Chart, Title: l.Title}
	c.Desc = l.describe(label)
	x := func(i int) float64 {
		return linesLeft + (linesWidth-linesLeft-linesRight)*(float64(i)+0.5)/float64(max(len(l.X), 1)) //nolint:mnd // the middle of a place
	}
	y := func(v float64) float64 { return bottom - linesHeight*(v/2-low/2)/(high/2-low/2) } //nolint:mnd // halves do not overflow
	for _, v := range []float64{low, low/2 + high/2, high} {                                //nolint:mnd // the middle
		c.Line("g", [2]float64{linesLeft, y(v)}, [2]float64{linesWidth - linesRight, y(v)})
		c.Text("s e", linesLeft-6, y(v)+4, label(v))
	}
	l.places(c, x, bottom+labelHeight-4)
	for i, s := range l.Series {
		class := fmt.Sprintf("p%d", i%dashes)
		s.draw(c, class, len(l.X), x, y)
		top := bottom + labelHeight + lineBreak*float64(i) + 8
		c.Line(class, [2]float64{linesLeft, top}, [2]float64{linesLeft + 28, top})
		c.Text("", linesLeft+36, top+4, Printable(s.Name, maxName))
	}
	return c
}

// places names the first, middle and last place.
func (l Lines) places(c *Canvas, x func(int) float64, y float64) {
	last := len(l.X) - 1
	if last < 0 {
		return
	}
	if last == 0 {
		c.Text("s c", x(0), y, Printable(l.X[0], maxPlace))
		return
	}
	c.Text("s", linesLeft, y, Printable(l.X[0], maxPlace))
	c.Text("s e", linesWidth-linesRight, y, Printable(l.X[last], maxPlace))
	if last > 1 {
		c.Text("s c", x(last/2), y, Printable(l.X[last/2], maxPlace)) //nolint:mnd // the middle
	}
}

// draw draws one line.
func (s Series) draw(c *Canvas, class string, places int, x func(int) float64, y func(float64) float64) {
	var p, points, marked Path
	after := false // whether the value before has been drawn
	for i, v := range s.Values[:min(len(s.Values), places)] {
		if !finite(v) {
			after = false
			continue
		}
		if after {
			p.Line(x(i), y(v))
		} else {
			p.Move(x(i), y(v))
		}
		after = true
		if places <= pointLimit {
			points.Diamond(x(i), y(v), 1.6) //nolint:mnd // pixels
		}
	}
	for _, i := range s.Marked {
		if i >= 0 && i < min(len(s.Values), places) && finite(s.Values[i]) {
			marked.Diamond(x(i), y(s.Values[i]), 6) //nolint:mnd // pixels
		}
	}
	c.Path(class, &p)
	c.Path(class, &points)
	c.Path("m", &marked)
}

// limits returns the limits of the y axis, which differ.
func (l Lines) limits() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	if l.Zero {
		low, high = 0, 0
	}
	for _, s := range l.Series {
		if from, to, ok := s.limits(); ok {
			low, high = min(low, from), max(high, to)
		}
	}
	switch {
	case low > high:
		return 0, 1
	case low == high:
		return low - max(1, math.Abs(low)/2), high + max(1, math.Abs(high)/2) //nolint:mnd // a half
	}
	return low, high
}

// limits returns the least and the greatest value; false if there is none.
func (s Series) limits() (low, high float64, ok bool) {
	for _, v := range s.Values {
		switch {
		case !finite(v):
		case !ok:
			low, high, ok = v, v, true
		default:
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high, ok
}

// describe says what each line shows.
func (l Lines) describe(label func(float64) string) string {
	var b strings.Builder
	if n := len(l.X); n > 0 {
		fmt.Fprintf(&b, "%d places from %s to %s.", n, Printable(l.X[0], maxPlace), Printable(l.X[n-1], maxPlace))
	}
	for _, s := range l.Series {
		fmt.Fprintf(&b, " %s: ", Printable(s.Name, maxName))
		switch low, high, ok := s.limits(); {
		case !ok:
			b.WriteString("no values")
		case low == high:
			b.WriteString("always " + label(low))
		default:
			fmt.Fprintf(&b, "from %s to %s", label(low), label(high))
		}
		for _, i := range s.Marked {
			if i >= 0 && i < min(len(s.Values), len(l.X)) {
				fmt.Fprintf(&b, "; marked at %s: %s", Printable(l.X[i], maxPlace), label(s.Values[i]))
			}
		}
		b.WriteByte('.')
	}
	return strings.TrimSpace(b.String())
}

func finite(v float64) bool { return v-v == 0 }
