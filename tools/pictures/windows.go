package main

import (
	"fmt"
	"strconv"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// A run of four days, with windows and parts as small as a picture needs.
const (
	runDays    = 4
	rowsPerDay = 12
	windowRows = 12
	runParts   = 4
)

const (
	cellWidth  = 14.0
	cellHeight = 18.0
	runLeft    = 130.0
	dayGap     = 8.0
)

// windows draws the windows of a run in two epochs, and then window by window.
func windows() (string, error) {
	c := newCanvas(int(runLeft+runDays*rowsPerDay*cellWidth+(runDays-1)*dayGap+12), 330, "How a window is made of many places")
	for day := range runDays {
		c.text("s m", cellAt(day*rowsPerDay)+rowsPerDay*cellWidth/2, 18, "day %d", day+1)
	}
	for epoch := range 2 {
		of, err := windowOfRows(int64(epoch))
		if err != nil {
			return "", err
		}
		top := 28 + float64(epoch)*34
		c.text("h", 8, top+14, "epoch %d", epoch)
		for row, window := range of {
			drawCell(c, color(window), row, top, strconv.Itoa(window))
		}
		if epoch == 0 {
			drawWindows(c, of, 132)
		}
	}
	c.text("s", 8, 118, "The number of a row is its window. Below: the windows of epoch 0, in the order in which they are read.")
	c.text("s", 8, 292, "A bucket's rows of all days are divided into %d parts. Each part begins at a drawn row, and a window is the next block of every part.", runParts)
	c.text("s", 8, 308, "The rows of a window are mixed with each other. In another epoch, the parts begin elsewhere. (Here a window has %d rows; by default 131,072.)", windowRows)
	return c.File(style), nil
}

// drawWindows draws a line for each window: its rows, in the outlines of the days.
func drawWindows(c *canvas, of []int, top float64) {
	for window := range runDays * rowsPerDay / windowRows {
		y := top + float64(window)*34
		c.text("", 8, y+14, "window %d", window)
		for day := range runDays {
			c.Box("o f", cellAt(day*rowsPerDay), y, rowsPerDay*cellWidth-1.5, cellHeight)
		}
		for row, other := range of {
			if other == window {
				drawCell(c, color(window), row, y, "")
			}
		}
	}
}

// drawCell draws one row of the run.
func drawCell(c *canvas, class string, row int, y float64, text string) {
	c.Box(class, cellAt(row), y, cellWidth-1.5, cellHeight)
	if text != "" {
		c.text("s m", cellAt(row)+cellWidth/2-0.7, y+13, "%s", text)
	}
}

// cellAt returns where a row of the run is drawn.
func cellAt(row int) float64 {
	return runLeft + float64(row)*cellWidth + float64(row/rowsPerDay)*dayGap
}

// windowOfRows returns the window of each row of a run, as they are stored.
func windowOfRows(epoch int64) ([]int, error) {
	l := layout{name: "ml.impressions", key: "request_id", buckets: 1, days: true}
	var listing plan.Listing
	for day := range runDays {
		listing.Files = append(listing.Files, file(fmt.Sprintf("day%d", day), rowsPerDay, int64(day), int64(0)))
	}
	d := dataset.Dataset{Name: "clicks", Key: []string{"request_id"}, Training: dataset.Training{Table: l.name}}
	p, err := planned(d, []*catalog.Table{l.table()}, plan.Files{Training: listing}, dataset.Query{Rows: dataset.Rows{
		Order: dataset.Shuffled, Seed: 1, Epoch: epoch, Shuffle: dataset.ShuffleRows, ShuffleWindow: windowRows, ShuffleParts: runParts, Lanes: 1,
	}})
	if err != nil {
		return nil, err
	}
	run := p.Runs(0)[0]
	out := make([]int, runDays*rowsPerDay)
	for _, r := range p.Lanes[0].Ranges {
		day, _ := p.Splits[r.Split].Partition[0].(int64)
		for row := r.From; row < r.To; row++ {
			out[int(day)*rowsPerDay+int(row)] = int(run.Window(r.Split, row))
		}
	}
	return out, nil
}
