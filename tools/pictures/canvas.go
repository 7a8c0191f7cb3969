package main

import (
	"fmt"

	"github.com/penstock/penstock/internal/svg"
)

// colors is the number of colors that canvas has: c0, c1 and so on in its style.
const colors = 8

// style has a color for text and lines, and colors for boxes, each for light and dark pages. Boxes are translucent, so
// that text on them is legible in both. Boxes of class o are outlines, and lines of class d are dashed.
const style = `
text{font:13px system-ui,sans-serif;fill:#1f2328}.s{font-size:11px}.h{font-weight:600}.m{text-anchor:middle}.e{text-anchor:end}
rect{stroke-width:1.2;fill-opacity:.28}line{stroke-width:1.4;stroke-opacity:.75}
.l{stroke:#6e7781;fill:none}.o{fill:none;stroke:#6e7781}.f{opacity:.5}.d{stroke-dasharray:4 3}
.c0{fill:#0072b2;stroke:#0072b2}.c1{fill:#d55e00;stroke:#d55e00}.c2{fill:#009e73;stroke:#009e73}.c3{fill:#cc79a7;stroke:#cc79a7}
.c4{fill:#b59f00;stroke:#b59f00}.c5{fill:#56b4e9;stroke:#56b4e9}.c6{fill:#8c564b;stroke:#8c564b}.c7{fill:#7f7f7f;stroke:#7f7f7f}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.l,.o{stroke:#8b949e}line{stroke-opacity:1}rect{fill-opacity:.42}}
`

// canvas is a picture.
type canvas struct{ svg.Canvas }

func newCanvas(width, height int, title string) *canvas {
	return &canvas{svg.Canvas{Width: width, Height: height, Title: title}}
}

// text draws a line of text. Classes: h for a heading, s for small, m and e for centered and right-aligned at x.
func (c *canvas) text(class string, x, y float64, format string, args ...any) {
	c.Text(class, x, y, fmt.Sprintf(format, args...))
}

// color returns the class of a color by number.
func color(n int) string { return fmt.Sprintf("c%d", n%colors) }
