package ui

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"time"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/plan/shape"
)

// planShape shows how the rows of a plan are spread.
type planShape struct {
	Pictures  []picture
	Tables    []tableShape
	SmallFile string
	Rates     template.HTML // match rates of streams; "" if there are none
}

// picture is a chart.
type picture struct {
	Caption string
	Picture template.HTML
}

// tableShape describes what is read of a table.
type tableShape struct {
	Name   string
	Unread bool
	Parts  string // the parts that are read at once
	shape.Files
}

func newPlanShape(of flight.PlanShape) planShape {
	out := planShape{SmallFile: fault.Size(shape.SmallFile), Rates: rates(of.Runs)}
	if len(of.Buckets) == 0 {
		return out
	}
	rows := make([]int64, 0, len(of.Buckets))
	for _, b := range of.Buckets {
		rows = append(rows, b.Rows)
	}
	out.add("Training rows by bucket: "+skew(rows), rows, bucketName(of.Buckets[0].From), bucketName(of.Buckets[len(of.Buckets)-1].To))
	for i, entry := range of.Staging {
		if entry.Unread {
			continue
		}
		held := make([]int64, 0, len(of.Buckets))
		for _, b := range of.Buckets {
			held = append(held, b.Joined[i])
		}
		out.add("Rows of "+entry.Name+" held with each bucket: "+skew(held), held, bucketName(of.Buckets[0].From), bucketName(of.Buckets[len(of.Buckets)-1].To))
	}
	if len(of.Lanes) > 1 {
		lanes := make([]int64, 0, len(of.Lanes))
		for _, l := range of.Lanes {
			lanes = append(lanes, l.Rows)
		}
		out.add("Training rows by lane: "+skew(lanes), lanes, "lane 0", "lane "+strconv.Itoa(of.Lanes[len(of.Lanes)-1].To))
	}
	out.Tables = append(out.Tables, tableShape{Name: "training table", Parts: fault.Count(of.Splits, "split"), Files: of.Training})
	for _, entry := range of.Staging {
		out.Tables = append(out.Tables, tableShape{Name: entry.Name, Unread: entry.Unread, Parts: fault.Count(entry.Groups, "file group"), Files: entry.Files})
	}
	return out
}

// add adds a picture with a bar for each part.
func (p *planShape) add(caption string, counts []int64, from, to string) {
	p.Pictures = append(p.Pictures, picture{caption, inline(svg.Histogram{Title: caption, Bins: svg.Bins{Counts: counts}, From: from, To: to}.Draw())})
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

// rates draws the match rates of streams by entry.
func rates(runs []flight.Run) template.HTML {
	if len(runs) == 0 {
		return ""
	}
	lines := svg.Lines{Title: "match rates of the last streams", Label: svg.Percent}
	at := map[string]int{}
	for i, run := range runs {
		lines.X = append(lines.X, run.Ended.UTC().Format(time.DateTime))
		for _, m := range run.Matches {
			if _, ok := at[m.Entry]; !ok {
				at[m.Entry] = len(lines.Series)
				values := make([]float64, len(runs))
				for j := range values {
					values[j] = math.NaN()
				}
				lines.Series = append(lines.Series, svg.Series{Name: m.Entry, Values: values})
			}
			lines.Series[at[m.Entry]].Values[i] = float64(m.Matched) / float64(max(1, m.Rows))
		}
	}
	return inline(lines.Draw())
}
