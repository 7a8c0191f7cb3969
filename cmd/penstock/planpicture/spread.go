package planpicture

import (
	"fmt"
	"strconv"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/plan/shape"
)

// Spread draws a bar for each bucket and each lane: the training rows, and the rows of staging entries that are held with a bucket.
func Spread(of shape.Shape) (out []svg.Captioned) {
	if len(of.Buckets) == 0 {
		return nil
	}
	from, to := bucketName(of.Buckets[0].From), bucketName(of.Buckets[len(of.Buckets)-1].To)
	add := func(name string, counts []int64, from, to string) {
		caption := name + ": " + skew(counts)
		out = append(out, svg.Captioned{Caption: caption, Picture: svg.Histogram{Title: caption, Bins: svg.Bins{Counts: counts}, From: from, To: to}.Draw()})
	}
	add("Training rows by bucket", counts(of.Buckets, func(b shape.Bucket) int64 { return b.Rows }), from, to)
	for i, entry := range of.Staging {
		if !entry.Unread {
			add("Rows of "+entry.Name+" held with each bucket", counts(of.Buckets, func(b shape.Bucket) int64 { return b.Joined[i] }), from, to)
		}
	}
	if len(of.Lanes) > 1 {
		add("Training rows by lane", counts(of.Lanes, func(l shape.Lane) int64 { return l.Rows }), "lane 0", "lane "+strconv.Itoa(of.Lanes[len(of.Lanes)-1].To))
	}
	return out
}

// counts returns the number of each part.
func counts[P any](parts []P, of func(P) int64) []int64 {
	out := make([]int64, 0, len(parts))
	for _, part := range parts {
		out = append(out, of(part))
	}
	return out
}

func bucketName(number int) string {
	if number < 0 {
		return "no bucket"
	}
	return "bucket " + strconv.Itoa(number)
}

// skew says how much the largest part differs from the mean.
func skew(counts []int64) string {
	most, sum := int64(0), 0.0
	for _, n := range counts {
		most = max(most, n)
		sum += float64(n)
	}
	if sum == 0 {
		return "none"
	}
	return fmt.Sprintf("the largest has %s, %.2g × the mean", svg.Count(most), float64(most)*float64(len(counts))/sum)
}

// Table describes what is read of a table.
type Table struct {
	Name   string
	Unread bool
	Parts  string // the parts that are read at once
	shape.Files
}

// Tables describes the training table, and the tables of the staging entries.
func Tables(of shape.Shape) []Table {
	out := []Table{{Name: "training table", Parts: fault.Count(of.Splits, "split"), Files: of.Training}}
	for _, entry := range of.Staging {
		out = append(out, Table{Name: entry.Name, Unread: entry.Unread, Parts: fault.Count(entry.Groups, "file group"), Files: entry.Files})
	}
	return out
}

// text describes the files of a table in a line.
func (t Table) text() string {
	if t.Unread {
		return t.Name + ": not read"
	}
	return fmt.Sprintf("%s: %s, %d of them small, %s, %s rows, read in %s", t.Name, fault.Count(t.Count, "file"), t.Small, fault.Size(t.Bytes), svg.Count(t.Rows), t.Parts)
}

// Small says which files count as small.
func Small() string {
	return "A file is small if it has less than " + fault.Size(shape.SmallFile) + ": opening it costs about as much as reading it."
}

// File returns all pictures of a plan as one SVG file, which loads nothing else.
func File(of flight.PlanShape) string {
	parts := make([]svg.Captioned, 0, len(of.Staging)+1)
	for _, t := range Tables(of.Shape) {
		parts = append(parts, svg.Captioned{Caption: t.text()})
	}
	parts = append(append(append(parts, svg.Captioned{Caption: Small()}), Spread(of.Shape)...), Rates(of.Runs).Pictures...)
	return svg.Column("Plan "+of.Plan+" of "+svg.Count(of.Rows)+" stored rows", parts).File(svg.FileStyle)
}
