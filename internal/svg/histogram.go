package svg

import (
	"fmt"
	"math"
	"strconv"
)

// Bins are the numbers of values in bins of equal width.
type Bins struct {
	Counts []int64
	// Below and Above count the values outside of the bins.
	Below, Above int64
}

// total returns the number of values, which is at least 1.
func (b Bins) total() float64 {
	n := float64(b.Below) + float64(b.Above)
	for _, v := range b.Counts {
		n += float64(v)
	}
	return max(n, 1)
}

// highest returns the largest share of a bin.
func (b Bins) highest() float64 {
	top := max(b.Below, b.Above)
	for _, v := range b.Counts {
		top = max(top, v)
	}
	return float64(top) / b.total()
}

// outside says how many values are outside of the bins.
func (b Bins) outside() string {
	if b.Below+b.Above == 0 {
		return "; no values outside"
	}
	return fmt.Sprintf("; %s below and %s above", Count(b.Below), Count(b.Above))
}

// Histogram shows how many values are in each bin. Values outside of the bins have dashed bars at the ends.
type Histogram struct {
	Title string
	Bins
	From, To string // the limits of the bins, as texts
}

// The sizes of histograms.
const (
	chartWidth   = 360
	plotHeight   = 90.0
	plotTop      = 16.0
	labelHeight  = 18.0
	spark        = 20
	barGap       = 0.8
	outsideSlots = 2 // a bar outside of the bins, and a gap
)

// slots places the bars of a histogram.
type slots struct {
	width float64 // of a bar and a gap
	first float64 // where the first bin begins
	last  float64 // where the last bin ends
}

func newSlots(width float64, bins int, below, above bool) slots {
	n, first := bins, 0
	if below {
		n, first = n+outsideSlots, outsideSlots
	}
	if above {
		n += outsideSlots
	}
	w := width / float64(max(n, 1))
	return slots{width: w, first: float64(first) * w, last: float64(first+bins) * w}
}

// axis is where bars stand, or hang from if the height is negative.
type axis struct {
	y      float64
	height float64 // of a bar with the largest share
	share  float64 // the largest share of a bar
}

// draw draws bars.
func (s slots) draw(c *Canvas, class string, b Bins, on axis) {
	if on.share <= 0 {
		return
	}
	gap := min(barGap, s.width/4) //nolint:mnd // a quarter
	total := b.total()
	of := func(n int64) float64 { return float64(max(n, 0)) / total / on.share * on.height }
	var bars, outside Path
	for i, n := range b.Counts {
		if n > 0 {
			bars.Bar(s.first+float64(i)*s.width, on.y, s.width-gap, of(n))
		}
	}
	if b.Below > 0 {
		outside.Bar(1, on.y, s.width-gap, of(b.Below))
	}
	if b.Above > 0 {
		outside.Bar(s.last+s.width-1, on.y, s.width-gap, of(b.Above))
	}
	c.Path(class, &bars)
	c.Path("o", &outside)
}

// Draw draws the histogram.
func (h Histogram) Draw() *Canvas {
	c := &Canvas{Width: chartWidth, Height: int(plotTop + plotHeight + labelHeight), Class: Chart, Title: h.Title}
	c.Desc = fmt.Sprintf("Histogram of %s values in %d bins of equal width from %s to %s%s.", Count(int64(h.total())), len(h.Counts), h.From, h.To, h.outside())
	s, base := newSlots(chartWidth, len(h.Counts), h.Below > 0, h.Above > 0), plotTop+plotHeight
	c.Text("s", 0, plotTop-5, "highest: "+Percent(h.highest()))
	s.draw(c, "a", h.Bins, axis{base, plotHeight, h.highest()})
	c.Line("l", [2]float64{s.first, base}, [2]float64{s.last, base})
	s.labels(c, h.From, h.To, base+labelHeight-4)
	return c
}

// labels draws the limits of the bins.
func (s slots) labels(c *Canvas, from, to string, y float64) {
	c.Text("s", s.first, y, Printable(from, maxLimit))
	if from != to {
		c.Text("s e", s.last, y, Printable(to, maxLimit))
	}
	if s.first > 0 {
		c.Text("s c", s.width/2, y, "<") //nolint:mnd // the middle
	}
	if chartWidth-s.last > s.width {
		c.Text("s c", s.last+s.width*1.5, y, ">") //nolint:mnd // the middle of the bar after a gap
	}
}

// maxLimit is the maximum number of characters of a limit, so that two fit below a chart.
const maxLimit = 28

// Sparkline shows the bins of a histogram in the height of a line of text. Values outside are left out.
func Sparkline(title string, counts []int64) *Canvas {
	const width, least, most, gap = 96, 3, 12, 1
	bar := max(least, min(width/max(len(counts), 1), most))
	c := &Canvas{Width: max(len(counts), 1)*bar - gap, Height: spark, Class: Chart, Title: title}
	top := int64(1)
	for _, n := range counts {
		top = max(top, n)
	}
	var p Path
	for i, n := range counts {
		if n > 0 {
			p.Bar(float64(i*bar), spark, float64(bar-gap), max(1, math.Round(float64(n)/float64(top)*(spark-1))))
		}
	}
	c.Path("a", &p)
	return c
}

// Pair shows two histograms with the same bins: the first stands on the axis, and the second hangs from it. Heights are
// shares of the values of each, so that different numbers of values compare.
type Pair struct {
	Title         string
	First, Second Bins
	Names         [2]string
	From, To      string
}

// Draw draws both histograms.
func (p Pair) Draw() *Canvas {
	const height = 70.0
	c := &Canvas{Width: chartWidth, Height: int(plotTop + 2*height + 2*labelHeight), Class: Chart, Title: p.Title}
	bins := max(len(p.First.Counts), len(p.Second.Counts))
	below, above := p.First.Below+p.Second.Below > 0, p.First.Above+p.Second.Above > 0
	c.Desc = fmt.Sprintf("Two histograms in %d bins of equal width from %s to %s. Above the axis: %s, %s values%s. Below the axis: %s, %s values%s.", bins, p.From, p.To,
		Printable(p.Names[0], maxName), Count(int64(p.First.total())), p.First.outside(),
		Printable(p.Names[1], maxName), Count(int64(p.Second.total())), p.Second.outside())
	s, base := newSlots(chartWidth, bins, below, above), plotTop+height
	share := max(p.First.highest(), p.Second.highest())
	c.Text("s", 0, plotTop-5, Printable(p.Names[0], maxName))
	s.draw(c, "a", p.First, axis{base, height, share})
	s.draw(c, "b", p.Second, axis{base, -height, share})
	c.Line("l", [2]float64{s.first, base}, [2]float64{s.last, base})
	c.Text("s", 0, base+height+labelHeight-6, Printable(p.Names[1], maxName))
	s.labels(c, p.From, p.To, base+height+2*labelHeight-6)
	return c
}

// maxName is the maximum number of characters of a name in a chart.
const maxName = 40

// Percent returns a share in percent, with three digits or without decimals.
func Percent(share float64) string {
	if percent := 100 * share; math.Abs(percent) < 1e15 && math.Abs(percent) >= 1000 { //nolint:mnd // percent, digits
		return strconv.FormatFloat(percent, 'f', 0, 64) + "%"
	}
	return strconv.FormatFloat(100*share, 'g', 3, 64) + "%" //nolint:mnd // percent, digits, bits
}
