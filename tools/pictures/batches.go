package main

import (
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

const (
	lanes      = 4
	shards     = 2
	batchRows  = 4096
	laneLeft   = 300.0
	laneWidth  = 420.0
	laneHeight = 30.0
	lanePitch  = 48.0
)

// batches draws how the buckets of the quickstart's training table are dealt to lanes, and lanes give batches.
func batches() (string, error) {
	p, err := quickstart(dataset.Query{Rows: dataset.Rows{Lanes: lanes}})
	if err != nil {
		return "", err
	}
	c := newCanvas(970, 330, "How rows become batches")
	drawSplits(c, p)
	drawLanes(c, p)
	drawShards(c)
	c.text("s", 8, 290, "Buckets are dealt to lanes so that all have the same number of rows; a bucket that does not fit is cut. In each step, every lane gives the same number")
	c.text("s", 8, 306, "of rows (dashed lines), and a shard sends the rows of its lanes as one batch. With 1, 2 or 4 shards, the rows of a step are the same.")
	return c.File(style), nil
}

// scale returns the width of rows, so that a lane takes the width for lanes.
func scale(p *plan.Plan, rows int64) float64 {
	return laneWidth * float64(rows) * lanes / float64(p.StoredRows)
}

// drawSplits draws the splits in their order: one for each bucket.
func drawSplits(c *canvas, p *plan.Plan) {
	c.text("h", 8, 22, "buckets of the training table")
	for i, s := range p.Splits {
		y := 36 + float64(i)*26
		c.Box(color(s.Bucket.ID), 8, y, scale(p, s.Rows)*0.35, 20)
		c.text("s", 14, y+14, "%d", s.Bucket.ID)
		c.text("s", 20+scale(p, s.Rows)*0.35, y+14, "%d rows", s.Rows)
	}
}

// drawLanes draws the ranges of each lane and the borders of the steps.
func drawLanes(c *canvas, p *plan.Plan) {
	c.text("h", laneLeft, 22, "lanes")
	for lane := range p.Lanes {
		x, y := laneLeft, 36+float64(lane)*lanePitch
		c.text("e", laneLeft-10, y+20, "lane %d", lane)
		for _, r := range p.Lanes[lane].Ranges {
			width := scale(p, r.To-r.From)
			c.Box(color(p.Splits[r.Split].Bucket.ID), x, y, width, laneHeight)
			if width > 12 {
				c.text("s m", x+width/2, y+19, "%d", p.Splits[r.Split].Bucket.ID)
			}
			x += width
		}
	}
	perLane := int64(batchRows * shards / lanes)
	bottom := 36 + (lanes-1)*lanePitch + laneHeight + 6
	step := 0
	for row := int64(0); row < p.StoredRows/lanes; row += perLane {
		x := laneLeft + scale(p, row)
		if step > 0 {
			c.Line("l d", [2]float64{x, 30}, [2]float64{x, bottom})
		}
		c.text("s m", x+scale(p, perLane)/2, bottom+14, "step %d", step)
		step++
	}
}

// drawShards draws which lanes a shard has.
func drawShards(c *canvas) {
	x := laneLeft + laneWidth + 30
	c.text("h", x, 22, "a batch of %d rows", batchRows)
	for lane := range lanes {
		y := 36 + float64(lane)*lanePitch
		c.Box("o", x, y, 200, laneHeight)
		c.text("", x+10, y+20, "%d rows to shard %d", batchRows*shards/lanes, lane%shards)
	}
}
