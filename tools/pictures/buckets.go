package main

import (
	"strconv"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

const (
	bucketWidth  = 58.0
	bucketHeight = 30.0
	bucketPitch  = 70.0
	panelHeight  = 170.0
	labelWidth   = 190.0
)

// buckets draws which staging buckets match each training bucket, for both staging tables of the quickstart.
func buckets() (string, error) {
	p, err := quickstart(dataset.Query{})
	if err != nil {
		return "", err
	}
	c := newCanvas(int(labelWidth+trainingBuckets*bucketPitch), int(2*panelHeight)+58, "How the buckets of two tables match")
	for i, name := range []string{"user_history", "device"} {
		drawMatch(c, p, i, name, float64(i)*panelHeight+8)
	}
	for i, text := range []string{
		"Boxes of one color are one file group: the files that can have equal keys. The files of the staging table in a",
		"group are read once and held in memory, and are joined with the training rows of its color. With n and m buckets,",
		"there are as many groups as the greatest common divisor of n and m.",
	} {
		c.text("s", 8, 2*panelHeight+16+float64(i)*16, "%s", text)
	}
	return c.File(style), nil
}

// drawMatch draws the panel of one staging table.
func drawMatch(c *canvas, p *plan.Plan, staging int, name string, top float64) {
	groups := p.Staging[staging].Groups
	count := 0
	for _, g := range groups {
		count += len(g.Files)
	}
	c.text("h", 8, top+20, "ml.impressions")
	c.text("s", 8, top+36, "bucket(%d, request_id)", trainingBuckets)
	c.text("h", 8, top+106, "features.%s", name)
	c.text("s", 8, top+122, "bucket(%d, %s)", count, map[string]string{"user_history": "request_id", "device": "req_id"}[name])
	at := func(n, of int) float64 { return labelWidth + (float64(n)+0.5)*trainingBuckets*bucketPitch/float64(of) }
	for _, s := range p.Splits {
		group, x := s.Groups[staging], at(s.Bucket.ID, trainingBuckets)
		for _, f := range p.Staging[staging].Group(group).Files {
			c.Line(color(group), [2]float64{x, top + 10 + bucketHeight}, [2]float64{at(number(f.Partition), count), top + 96})
		}
		drawBucket(c, color(group), x, top+10, strconv.Itoa(s.Bucket.ID))
	}
	for group, g := range groups {
		for _, f := range g.Files {
			n := number(f.Partition)
			drawBucket(c, color(group), at(n, count), top+96, strconv.Itoa(n))
		}
	}
}

// number returns the bucket of a file whose only partition field it is.
func number(partition []any) int {
	n, _ := partition[0].(int64)
	return int(n)
}

// drawBucket draws a bucket, centered at x.
func drawBucket(c *canvas, class string, x, y float64, text string) {
	c.Box(class, x-bucketWidth/2, y, bucketWidth, bucketHeight)
	c.text("m", x, y+20, "%s", text)
}
