package svg

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Canvas collects the shapes of a picture. Coordinates are pixels from the upper left corner. Classes are words of the style,
// which the caller chooses: they never come from data.
type Canvas struct {
	Width, Height int
	// Class is the class of the whole picture; it may be empty.
	Class string
	// Title is the name of the picture, and Desc says in one or two sentences what it shows. Screen readers read both.
	Title, Desc string
	shapes      strings.Builder
}

// The maximum numbers of characters of texts. Longer ones are cut.
const (
	maxTitle = 200
	maxDesc  = 1000
	maxText  = 400
)

// Box draws a rectangle with rounded corners.
func (c *Canvas) Box(class string, x, y, width, height float64) {
	fmt.Fprintf(&c.shapes, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"2\"/>\n",
		escape(class), fixed(x), fixed(y), fixed(width), fixed(height))
}

// Text draws a line of text, which begins, ends or is centered at x, depending on its class. y is the base line.
func (c *Canvas) Text(class string, x, y float64, text string) {
	fmt.Fprintf(&c.shapes, "<text class=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", escape(class), fixed(x), fixed(y), escape(Printable(text, maxText)))
}

// Line draws a line between two points.
func (c *Canvas) Line(class string, from, to [2]float64) {
	fmt.Fprintf(&c.shapes, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n",
		escape(class), fixed(from[0]), fixed(from[1]), fixed(to[0]), fixed(to[1]))
}

// Path draws a path. An empty path draws nothing.
func (c *Canvas) Path(class string, p *Path) {
	if p.data.Len() > 0 {
		fmt.Fprintf(&c.shapes, "<path class=\"%s\" d=\"%s\"/>\n", escape(class), p.data.String())
	}
}

// File returns the picture as an SVG file with a style, which is CSS without "<" and "&".
func (c *Canvas) File(style string) string {
	return c.whole("<svg xmlns=\"http://www.w3.org/2000/svg\"", "<style>"+style+"</style>\n")
}

// Inline returns the picture for an HTML page that has the style of its classes.
func (c *Canvas) Inline() string { return c.whole("<svg", "") }

func (c *Canvas) whole(begin, style string) string {
	var b strings.Builder
	b.WriteString(begin)
	if c.Class != "" {
		fmt.Fprintf(&b, " class=\"%s\"", escape(c.Class))
	}
	fmt.Fprintf(&b, " viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n<title>%s</title>\n",
		c.Width, c.Height, c.Width, c.Height, escape(Printable(c.Title, maxTitle)))
	if c.Desc != "" {
		fmt.Fprintf(&b, "<desc>%s</desc>\n", escape(Printable(c.Desc, maxDesc)))
	}
	b.WriteString(style)
	b.WriteString(c.shapes.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// Path is a sequence of bars, points and lines that are drawn as one shape.
type Path struct{ data strings.Builder }

// Bar adds a rectangle that stands on y, or hangs from it if its height is negative.
func (p *Path) Bar(x, y, width, height float64) {
	fmt.Fprintf(&p.data, "M%s %sv%sh%sv%sz", coordinate(x), coordinate(y), coordinate(-height), coordinate(width), coordinate(height))
}

// Move begins a line.
func (p *Path) Move(x, y float64) { fmt.Fprintf(&p.data, "M%s %s", coordinate(x), coordinate(y)) }

// Line continues a line.
func (p *Path) Line(x, y float64) { fmt.Fprintf(&p.data, "L%s %s", coordinate(x), coordinate(y)) }

// Diamond adds a small diamond around a point.
func (p *Path) Diamond(x, y, radius float64) {
	r := coordinate(radius)
	fmt.Fprintf(&p.data, "M%s %sl%s -%sl%s %sl-%s %sz", coordinate(x-radius), coordinate(y), r, r, r, r, r, r)
}

// escape returns a text as the content of an element or of a quoted attribute. All other functions write texts only
// through it.
func escape(text string) string { return html.EscapeString(text) }

// fixed returns a coordinate with one decimal.
func fixed(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

// coordinate returns a coordinate with at most one decimal.
func coordinate(x float64) string {
	text := strings.TrimSuffix(fixed(x), ".0")
	if text == "-0" {
		return "0"
	}
	return text
}
