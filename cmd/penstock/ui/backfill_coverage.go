package ui

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/verify"
)

// covered is how a branch covers the training rows of a dataset.
type covered struct {
	Table, Branch   string
	Choices         []named // the datasets that read the table
	Dataset         string  // "": none is chosen
	Link            string  // of the dataset
	Verify          string  // the address that verifies the branch
	Failure, Remedy string
	Entry, Snapshot string
	Own             bool // the dataset does not read the table
	Facts           []fact
	Alarm           string // which days are missing, or have few matches
	Shared          bool   // a staged row counts for several partitions, so that days without rows of their own cannot be seen
	Pictures        []picture
	Partition       string
	Days            []dayRow
	Measured        bool // days have match rates
}

// dayRow counts the rows of a partition, or of several neighbors.
type dayRow struct {
	Name, Training, Staged, Rate string
	Empty                        bool
	Few                          bool // matches
}

// newCovered returns the coverage of a branch without counts. Its dataset is the one that the request names, or else the first that reads
// the table.
func newCovered(of *branchState, r *http.Request) covered {
	out := covered{Table: of.Table, Branch: of.Branch, Dataset: r.URL.Query().Get("dataset"), Snapshot: strconv.FormatInt(of.Head, 10)}
	for _, name := range of.Datasets {
		out.Choices = append(out.Choices, named{name, backfillLink(of.Table, of.Branch) + "&dataset=" + queryOf(name) + "#coverage"})
	}
	if out.Dataset == "" && len(of.Datasets) > 0 {
		out.Dataset = of.Datasets[0]
	}
	if out.Dataset != "" {
		out.Link = "/datasets/" + pathOf(out.Dataset)
		out.Verify = "/backfills/" + pathOf(of.Table) + "/verify"
	}
	return out
}

// count adds the counts of the tables' metadata.
func (c *covered) count(ctx context.Context, p *pages, of *branchState) {
	if c.Dataset == "" {
		return
	}
	query, err := p.branchQueryOf(ctx, of, c.Dataset)
	var found coverage.Coverage
	if err == nil {
		found, err = p.Count.Coverage(ctx, query.text)
	}
	if err == nil {
		err = c.show(query, found, nil)
	}
	if err != nil {
		e := failureOf(err)
		c.Failure, c.Remedy = e.Message, e.Remedy
	}
}

// show shows counts and, if they were measured, matches.
func (c *covered) show(query branchQuery, found coverage.Coverage, matches *coverage.Matches) error {
	c.Entry, c.Own, c.Partition = query.Entry, query.Own, found.Partition
	at := slices.IndexFunc(found.Staging, func(e coverage.Entry) bool { return e.Name == query.Entry })
	if at < 0 {
		return fault.New(fault.Internal, "the server counted no rows of entry %s", query.Entry)
	}
	e := found.Staging[at]
	if e.Unread {
		return fault.New(fault.Invalid, "dataset %s does not read entry %s: its values are columns of the training table", query.Dataset, query.Entry).
			WithRemedy("demote the columns first, or choose another dataset")
	}
	total := int64(0)
	for _, row := range found.Training {
		for _, n := range row {
			total += n
		}
	}
	c.Facts = append(c.Facts, fact{"Training rows", svg.Count(total)}, fact{"Staged rows that are joined", svg.Count(e.Rows)})
	c.Alarm, c.Shared = alarmOf(found.Partition, e), e.Shared && len(found.Parts) > 1
	c.Pictures = append(c.Pictures, picture{"Staged rows by " + cmp.Or(found.Partition, "bucket") + " and bucket", inline(stagedGrid(found, e).Draw())})
	for i, part := range found.Parts {
		c.Days = append(c.Days, rowOfDay(part, found.Training[i], e, i))
	}
	if matches == nil {
		return nil
	}
	c.Measured = true
	grid := gridOf(matches.Axes, "Share of training rows with a match", func(part, bucket int) float64 {
		return rateOf(matches.Matched[part][bucket], matches.Rows[part][bucket])
	})
	grid.Levels = [4]svg.Level{{Name: "less than 50%"}, {Least: 0.5, Name: "50% and more"}, {Least: 0.9, Name: "90% and more"}, {Least: 0.99, Name: "99% and more"}}
	grid.Zero = "no match"
	c.Pictures = append(c.Pictures, picture{"Match rate by " + cmp.Or(matches.Partition, "bucket") + " and bucket", inline(grid.Draw())})
	c.addMatches(matches)
	return nil
}

// fewMatches is the match rate below which a day is named.
const fewMatches = 0.5

// maxFew is the maximum number of days with few matches that are named.
const maxFew = 20

// addMatches adds the match rates of days, and names those with few matches.
func (c *covered) addMatches(matches *coverage.Matches) {
	if len(matches.Parts) != len(c.Days) {
		return
	}
	var few []string
	for i := range c.Days {
		day := &c.Days[i]
		rate := rateOf(sumOf(matches.Matched[i]), sumOf(matches.Rows[i]))
		if day.Rate = unknown; !math.IsNaN(rate) {
			day.Rate = svg.Percent(rate)
		}
		if rate < fewMatches {
			day.Few = true
			few = append(few, day.Name+" ("+day.Rate+")")
		}
	}
	if len(few) == 0 || c.Partition == "" {
		return
	}
	text := fault.Count(len(few), "partition") + " with a match for less than half of the training rows: " + c.Partition + " = " + strings.Join(few[:min(len(few), maxFew)], ", ")
	if more := len(few) - maxFew; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	if c.Alarm != "" {
		text = c.Alarm + "; " + text
	}
	c.Alarm = text
}

// alarmOf says which partitions have training rows and no staging rows.
func alarmOf(partition string, e coverage.Entry) string {
	var out []string
	if e.EmptyParts > 0 {
		text := fault.Count(e.EmptyParts, "partition") + " with " + svg.Count(e.EmptyRows) + " training rows and no staged row: " + partition + " = " + strings.Join(e.Empty, ", ")
		if more := e.EmptyParts - len(e.Empty); more > 0 {
			text += " and " + strconv.Itoa(more) + " more"
		}
		out = append(out, text)
	}
	if e.Gaps > 0 {
		out = append(out, fault.Count(e.Gaps, "bucket")+" of other partitions with training rows and no staged row")
	}
	return strings.Join(out, "; ")
}

// rowOfDay counts the rows of a part. If files are joined in several places, their rows cannot be added.
func rowOfDay(part coverage.Part, training []int64, e coverage.Entry, at int) dayRow {
	out := dayRow{Name: span(part), Training: svg.Count(sumOf(training))}
	staged := sumOf(e.Joined[at])
	switch {
	case staged == 0:
		out.Staged, out.Empty = "none", sumOf(training) > 0
	case e.Shared:
		out.Staged = "some"
	default:
		out.Staged = svg.Count(staged)
	}
	return out
}

func span(part coverage.Part) string {
	if part.From == part.To {
		return part.From
	}
	return part.From + " to " + part.To
}

func sumOf(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func rateOf(part, whole int64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return float64(part) / float64(whole)
}

// stagedGrid shows where training rows have staged rows. Shades are shares of the most staged rows of a place.
func stagedGrid(found coverage.Coverage, e coverage.Entry) svg.Grid {
	most := int64(0)
	for _, row := range e.Joined {
		most = max(most, slices.Max(row))
	}
	out := gridOf(found.Axes, "Staged rows by partition and bucket", func(part, bucket int) float64 {
		if found.Training[part][bucket] == 0 {
			return math.NaN()
		}
		return float64(e.Joined[part][bucket]) / float64(max(1, most))
	})
	quarter := func(n int64) string { return "from " + svg.Count(max(1, most*n/4)) } //nolint:mnd // a quarter
	out.Levels = [4]svg.Level{{Name: "from 1 row"}, {Least: 0.25, Name: quarter(1)}, {Least: 0.5, Name: quarter(2)}, {Least: 0.75, Name: quarter(3)}}
	out.Zero = "no staged row"
	return out
}

// gridOf returns a grid of parts, from left to right, and buckets.
func gridOf(axes coverage.Axes, title string, value func(part, bucket int) float64) svg.Grid {
	out := svg.Grid{Title: title, Desc: "The counts by partition are in the table below. Places without training rows are empty."}
	for part := range axes.Parts {
		column := make([]float64, len(axes.Buckets))
		for bucket := range axes.Buckets {
			column[bucket] = value(part, bucket)
		}
		out.Values = append(out.Values, column)
	}
	if n := len(axes.Parts); n > 0 {
		out.Left, out.Right = axes.Parts[0].From, axes.Parts[n-1].To
	}
	if n := len(axes.Buckets); n > 0 {
		out.Top, out.Bottom = bucketName(axes.Buckets[0].From), bucketName(axes.Buckets[n-1].To)
	}
	return out
}

func bucketName(number int) string {
	if number < 0 {
		return "no bucket"
	}
	return "bucket " + strconv.Itoa(number)
}

// verifiedBranch is a verification of a branch, with the counts of the tables' metadata.
type verifiedBranch struct {
	query  branchQuery
	counts coverage.Coverage
	report *loader.Verification
}

// matches returns the matches of the branch; nil if there are none.
func (v *verifiedBranch) matches() *verify.Join {
	for _, t := range v.report.Tables {
		if t.Name == v.query.Entry && t.Join != nil {
			return t.Join
		}
	}
	return nil
}

// verified adds what a verification found.
func (c *covered) verified(found *verifiedBranch, began, ended time.Time) error {
	c.Facts = append(c.Facts, fact{"Measured", moment(ended) + ", in " + duration(ended.Sub(began).Milliseconds())})
	join := found.matches()
	if join == nil {
		return fault.New(fault.Internal, "the server verified no table %s", found.query.Entry)
	}
	c.Facts = append(c.Facts, fact{"Match rate", svg.Percent(join.MatchRate) + " of " + svg.Count(join.TrainingRows) + " training rows"})
	if join.MinMatch > 0 {
		c.Facts = append(c.Facts, fact{"Required", svg.Percent(join.MinMatch)})
	}
	return c.show(found.query, found.counts, join.Cells)
}
