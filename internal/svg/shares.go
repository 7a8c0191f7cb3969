package svg

import (
	"fmt"
	"strings"
)

// Share is a part of a whole, from 0 to 1.
type Share struct {
	Name string
	Of   float64
}

// Shares shows shares as bars, one below the other, with their names and percentages.
type Shares struct {
	Title string
	Of    []Share
}

// The sizes of bars of shares.
const (
	shareHeight = 20.0
	shareNames  = 176.0 // pixels
	shareText   = 24    // characters of a name
	shareNumber = 56.0
)

// Draw draws the bars.
func (s Shares) Draw() *Canvas {
	c := &Canvas{Width: chartWidth, Height: int(shareHeight)*max(len(s.Of), 1) + 2, Class: Chart, Title: s.Title}
	var said []string
	for i, one := range s.Of {
		top := shareHeight * float64(i)
		c.Text("e", shareNames-6, top+15, Printable(one.Name, shareText))
		width := max(0, min(one.Of, 1)) * (chartWidth - shareNames - shareNumber)
		var bar Path
		bar.Bar(shareNames, top+18, max(1, width), shareHeight-4)
		c.Path("a", &bar)
		c.Text("s", shareNames+max(1, width)+6, top+15, Percent(one.Of))
		said = append(said, fmt.Sprintf("%s %s", Printable(one.Name, maxName), Percent(one.Of)))
	}
	c.Desc = strings.Join(said, ", ")
	return c
}

// Gauge shows a value as a bar that begins at the middle of a range.
type Gauge struct {
	Title            string
	From, Middle, To float64
	Value            float64
	Beyond           bool // whether the value is marked
}

// The sizes of gauges.
const (
	gaugeWidth  = 120
	gaugeHeight = 16
)

// Draw draws the bar. Values outside of the range are drawn at its ends.
func (g Gauge) Draw() *Canvas {
	c := &Canvas{Width: gaugeWidth, Height: gaugeHeight, Class: Chart, Title: g.Title}
	at := func(value float64) float64 {
		return 1 + (gaugeWidth-2)*max(0, min((value-g.From)/(g.To-g.From), 1)) //nolint:mnd // a pixel at both ends
	}
	var bar Path
	from, to := min(at(g.Middle), at(g.Value)), max(at(g.Middle), at(g.Value))
	bar.Bar(from, gaugeHeight-3, max(1, to-from), gaugeHeight-6) //nolint:mnd // margins
	class := "a"
	if g.Beyond {
		class = "b"
	}
	c.Path(class, &bar)
	c.Line("l", [2]float64{at(g.Middle), 0}, [2]float64{at(g.Middle), gaugeHeight})
	c.Line("g", [2]float64{1, gaugeHeight - 1}, [2]float64{gaugeWidth - 1, gaugeHeight - 1})
	return c
}
