package svg

import (
	"fmt"
	"strings"
)

// Stack shows parts of a whole side by side in one bar, in their order. Parts differ in their shade, and lines separate them.
type Stack struct {
	Title string
	Of    []Share
}

// The sizes of stacks.
const (
	stackWidth  = 120
	stackHeight = 14
)

// Draw draws the bar. Parts beyond the whole are not drawn.
func (s Stack) Draw() *Canvas {
	c := &Canvas{Width: stackWidth, Height: stackHeight, Class: Chart, Title: s.Title}
	at := 0.0
	var said []string
	var borders Path
	for i, one := range s.Of {
		width := max(0, min(one.Of*(stackWidth-2), stackWidth-2-at))
		if finite(one.Of) && width > 0 {
			var bar Path
			bar.Bar(1+at, stackHeight-2, width, stackHeight-4) //nolint:mnd // margins
			c.Path(fmt.Sprintf("t%d", i%shades), &bar)
			at += width
			borders.Move(1+at, 1)
			borders.Line(1+at, stackHeight-1)
			said = append(said, fmt.Sprintf("%s %s", Printable(one.Name, maxName), Percent(one.Of)))
		}
	}
	c.Path("l", &borders)
	c.Desc = strings.Join(said, ", ")
	return c
}

// shades is the number of classes t0 to t5.
const shades = 6
