package main

import (
	"fmt"
	"html"
	"strings"
)

// colors is the number of colors that canvas has: c0, c1 and so on in its style.
const colors = 8

// style has a color for text and lines, and colors for boxes, each for light and dark pages. Boxes are translucent, so
// that text on them is legible in both.
const style = `
text{font:13px system-ui,sans-serif;fill:#1f2328}.s{font-size:11px}.h{font-weight:600}.m{text-anchor:middle}.e{text-anchor:end}
rect{stroke-width:1.2;fill-opacity:.28}line{stroke-width:1.4;stroke-opacity:.75}
.l{stroke:#6e7781;fill:none}.o{fill:none;stroke:#6e7781}.f{opacity:.5}
.c0{fill:#0072b2;stroke:#0072b2}.c1{fill:#d55e00;stroke:#d55e00}.c2{fill:#009e73;stroke:#009e73}.c3{fill:#cc79a7;stroke:#cc79a7}
.c4{fill:#b59f00;stroke:#b59f00}.c5{fill:#56b4e9;stroke:#56b4e9}.c6{fill:#8c564b;stroke:#8c564b}.c7{fill:#7f7f7f;stroke:#7f7f7f}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.l,.o{stroke:#8b949e}line{stroke-opacity:1}rect{fill-opacity:.42}}
`

// canvas collects the shapes of a picture.
type canvas struct {
	width, height int
	title         string
	shapes        strings.Builder
}

// box draws a rectangle of a class: c0 to c7, o for an outline alone.
func (c *canvas) box(class string, x, y, width, height float64) {
	fmt.Fprintf(&c.shapes, "<rect class=%q x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"/>\n", class, x, y, width, height)
}

// text draws a line of text. Classes: h for a heading, s for small, m and e for centered and right-aligned at x.
func (c *canvas) text(class string, x, y float64, format string, args ...any) {
	fmt.Fprintf(&c.shapes, "<text class=%q x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, html.EscapeString(fmt.Sprintf(format, args...)))
}

// line draws a line of a class between two points.
func (c *canvas) line(class string, from, to [2]float64) {
	fmt.Fprintf(&c.shapes, "<line class=%q x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, from[0], from[1], to[0], to[1])
}

// color returns the class of a color by number.
func color(n int) string { return fmt.Sprintf("c%d", n%colors) }

// String returns the picture.
func (c *canvas) String() string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n<title>%s</title>\n<style>%s</style>\n%s</svg>\n",
		c.width, c.height, c.width, c.height, html.EscapeString(c.title), style, c.shapes.String())
}
