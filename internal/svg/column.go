package svg

import (
	"fmt"
	"strings"
)

// Captioned is a picture below a line of text. Without a picture, it is only the line.
type Captioned struct {
	Caption string
	Picture *Canvas
}

// The sizes of columns of pictures.
const (
	columnWidth  = 640
	columnMargin = 12.0
	lineHeight   = 18.0
	maxCaption   = 100 // characters
)

// Column puts pictures below each other, for a file of its own.
func Column(title string, of []Captioned) *Canvas {
	c := &Canvas{Width: columnWidth, Class: Chart, Title: title}
	var said []string
	at := columnMargin + lineHeight
	c.Text("k", columnMargin, at, Printable(title, maxCaption))
	for _, one := range of {
		if one.Picture == nil {
			at += lineHeight
			c.Text("", columnMargin, at, Printable(one.Caption, maxCaption))
			continue
		}
		at += 2 * lineHeight //nolint:mnd // an empty line
		c.Text("k", columnMargin, at, Printable(one.Caption, maxCaption))
		at += lineHeight / 2 //nolint:mnd // a gap
		fmt.Fprintf(&c.shapes, "<g transform=\"translate(%s %s)\">\n%s</g>\n", fixed(columnMargin), fixed(at), one.Picture.shapes.String())
		at += float64(one.Picture.Height)
		said = append(said, Printable(one.Caption, maxCaption)+". "+one.Picture.Desc)
	}
	c.Height = int(at + columnMargin)
	c.Desc = strings.Join(said, " ")
	return c
}
