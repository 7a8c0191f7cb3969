package svg

import (
	"fmt"
	"math"
)

// Grid shows a value for each place of a grid by the shade of a square, as on a calendar. A value of 0 is a cross, and a place whose value is
// NaN is empty.
type Grid struct {
	Title, Desc string
	Values      [][]float64 // by column, from left to right, and row, from top to bottom; each column has the same number of rows
	// Left, Right, Top and Bottom are the names of the first and last column and row.
	Left, Right, Top, Bottom string
	// Levels are the shades, from light to dark. A value has the last level that it reaches; one below all levels has the first.
	Levels [gridShades]Level
	Zero   string // what a cross stands for
}

// Level is a shade and the least value that has it.
type Level struct {
	Least float64
	Name  string
}

// gridShades is the number of classes h1 to h4.
const gridShades = 4

// The sizes of grids.
const (
	gridWidth     = 512.0 // of all columns, at most, unless they have the least width
	gridHeight    = 256.0
	leastSide     = 4.0 // of a square
	mostSide      = 20.0
	legendMark    = 10.0
	legendStep    = 118.0 // between names of the legend
	legendColumns = 3
	legendLines   = (1 + gridShades + legendColumns - 1) / legendColumns
	gridLeast     = legendColumns * legendStep
)

// Draw draws the grid.
func (g Grid) Draw() *Canvas {
	rows := 0
	if len(g.Values) > 0 {
		rows = len(g.Values[0])
	}
	side := func(of float64, n int) float64 {
		return max(leastSide, min(mostSide, math.Floor(of/float64(max(n, 1)))))
	}
	width, height := side(gridWidth, len(g.Values)), side(gridHeight, rows)
	right, bottom := width*float64(len(g.Values)), plotTop+height*float64(rows)
	c := &Canvas{Width: int(max(gridLeast, right)) + 1, Height: int(bottom + (1+legendLines)*labelHeight), Class: Chart, Title: g.Title, Desc: g.Desc}
	var shades [gridShades]Path
	var crosses Path
	for x, column := range g.Values {
		for y, v := range column {
			g.place(v, &shades, &crosses, square{float64(x) * width, plotTop + float64(y)*height, width, height})
		}
	}
	c.Text("s", 0, plotTop-5, Printable(g.Top, maxLimit)+g.to(rows, " at the top, "+Printable(g.Bottom, maxLimit)+" at the bottom"))
	for i := range shades {
		c.Path(shadeClass(i), &shades[i])
	}
	c.Path("x", &crosses)
	c.Text("s", 0, bottom+labelHeight-5, Printable(g.Left, maxLimit)+g.to(len(g.Values), " at the left, "+Printable(g.Right, maxLimit)+" at the right"))
	g.legend(c, bottom+labelHeight)
	return c
}

// to returns a text about the last of several columns or rows.
func (g Grid) to(n int, text string) string {
	if n < 2 { //nolint:mnd // several
		return ""
	}
	return text
}

// square is a place on the canvas.
type square struct{ x, y, width, height float64 }

// place draws one value.
func (g Grid) place(v float64, shades *[gridShades]Path, crosses *Path, at square) {
	switch {
	case math.IsNaN(v):
	case v == 0:
		cross(crosses, at)
	default:
		level := 0
		for i, l := range g.Levels {
			if v >= l.Least {
				level = i
			}
		}
		shades[level].Bar(at.x, at.y+at.height-1, at.width-1, at.height-1)
	}
}

// cross adds two diagonals.
func cross(to *Path, at square) {
	to.Move(at.x+0.5, at.y+0.5)
	to.Line(at.x+at.width-1.5, at.y+at.height-1.5)
	to.Move(at.x+0.5, at.y+at.height-1.5)
	to.Line(at.x+at.width-1.5, at.y+0.5)
}

func shadeClass(level int) string { return fmt.Sprintf("a h%d", level+1) }

// legend names the cross and the shades.
func (g Grid) legend(c *Canvas, top float64) {
	for i := range 1 + gridShades {
		var mark Path
		x, y := legendStep*float64(i%legendColumns), top+labelHeight*float64(i/legendColumns)
		class, name := "x", g.Zero
		if i == 0 {
			cross(&mark, square{x, y + 4, legendMark, legendMark})
		} else {
			class, name = shadeClass(i-1), g.Levels[i-1].Name
			mark.Bar(x, y+legendMark+4, legendMark, legendMark)
		}
		c.Path(class, &mark)
		c.Text("s", x+legendMark+5, y+legendMark+3, Printable(name, maxLegend))
	}
}

// maxLegend is the maximum number of characters of a name in a legend, so that it ends before the next one.
const maxLegend = 18
