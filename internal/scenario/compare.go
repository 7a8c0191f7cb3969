package scenario

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// Difference describes how a read differs from the oracle's expectation. The zero value means that
// there is no difference.
type Difference struct {
	Kind string // usually the same for differences that have the same cause
	Text string
}

// dividing is the number of cores that assemble batches, so that tests find work that depends on its
// order.
const dividing = 3

// Differs reads a case with a loader that has the given options, and compares the result with the
// oracle's: all rows, the order of the joined rows of each training row, the names of the columns,
// and the counts of the report.
func (c *Case) Differs(w *World, options loader.Options) (Difference, Coverage) {
	want := c.Expect(w)
	want.Seen.Add(c.Layouts)
	want.Seen["cases"]++
	if want.Fails != "" {
		want.Seen["errors"]++
	}
	d, err := c.Decoded()
	if err != nil {
		return Difference{"the dataset is refused: " + cause(err), err.Error()}, want.Seen
	}
	if options.Cores == nil {
		options.Cores = cores.New(dividing)
	}
	options.Datasets, options.Catalog, options.Scan = []dataset.Dataset{d}, w, w.Scan
	shards, difference := c.readAgainst(want, loader.New(options))
	if len(shards) > 0 && len(shards[0].Report.Cursor.At) > 0 && slices.ContainsFunc(shards[0].Report.Cursor.At, func(p dataset.Position) bool { return p.Range > 1 }) {
		want.Seen["several splits"]++
	}
	for _, s := range shards {
		if s.Report.Request != nil && s.Report.Request.Ratio > 1 {
			want.Seen["requests sent once"]++
		}
		if len(s.Report.Indexed) > 0 {
			want.Seen["auto indexed"]++
		} else if c.Query.Wire.Auto() {
			want.Seen["auto plain"]++
		}
		for _, of := range s.Report.Staging {
			for strategy := range strings.SplitSeq(of.Strategy, ", ") {
				want.Seen["ran "+strategy]++
			}
			if of.SpilledBytes > 0 {
				want.Seen["spilled"]++
			}
			if of.Ratio > 1 {
				want.Seen["sent once for several rows"]++
			}
		}
	}
	if difference == (Difference{}) {
		difference = c.misread(w)
	}
	return difference, want.Seen
}

// judged matches the errors for rows that a join refuses and for filters that are not
// supported. The oracle does not predict which of several such rows comes first, and
// so which table the error names.
var judged = regexp.MustCompile(`\b(no row of|several rows of|is a field of a struct|has a null, and no fill|is beyond float32|is a division by zero|is not within (?:int|long))\b`)

// Read reads all rows of the case, with all of its DataLoader workers.
func (c *Case) Read(ctx context.Context, l *loader.Loader) ([]Shard, error) {
	q := c.asked()
	q.Limit = 0
	return ReadAsWorkers(ctx, l, q, c.Workers)
}

// Compare compares the result of Read with the expectation for a whole read. With tail: drop, a
// read may succeed even if a row should make it fail, because that row may come after the last
// step. With several workers, counts are not compared, since each worker also counts the rows that
// it skips.
func (c *Case) Compare(want Expectation, shards []Shard, err error) Difference {
	if c.Drops && err == nil {
		want.Fails = ""
		want.Seen["shards end at the same step"]++
	}
	if c.Workers > 1 {
		want.Seen["DataLoader workers take steps in turn"]++
	}
	if c.Drops || c.Workers > 1 {
		want.Counts = nil
	}
	if c.Drops {
		want.dropped = c.dropped
	}
	return want.Compare(shards, err)
}

// Compare compares the result of a read with the expectation.
func (e Expectation) Compare(shards []Shard, err error) Difference {
	switch {
	case err != nil && e.Fails == "":
		return Difference{"the read fails: " + cause(err), err.Error()}
	case err == nil && e.Fails != "":
		return Difference{"the read does not fail", e.Fails}
	case err != nil && (fault.KindOf(err) != fault.Invalid || !judged.MatchString(err.Error())):
		return Difference{"the read fails in another way: " + cause(err), err.Error()}
	case err != nil:
		return Difference{}
	}
	var rows [][]any
	for _, s := range shards {
		plain, difference := e.plain(s)
		if difference != (Difference{}) {
			return difference
		}
		rows = append(rows, plain...)
	}
	names := e.Columns
	got, want := Texts(byItem(names, rows)), Texts(byItem(names, e.Rows))
	if !slices.Contains(names, "item") {
		slices.Sort(got)
		slices.Sort(want)
	}
	if e.dropped != nil {
		return e.dropped(want, got, shards)
	}
	if !slices.Equal(got, want) {
		missing, surplus := Without(want, got), Without(got, want)
		return Difference{"rows differ", fmt.Sprintf("columns %v\nmissing:\n  %s\nsurplus:\n  %s\n(of %d, want %d; if neither, the order of one training row's rows)",
			names, strings.Join(missing, "\n  "), strings.Join(surplus, "\n  "), len(got), len(want))}
	}
	return e.compareCounts(shards)
}

// plain returns the rows of a shard with their columns in the order of the plain wire. With wire:
// auto, the form may differ from shard to shard.
func (e Expectation) plain(s Shard) ([][]any, Difference) {
	var names []string
	var types []arrow.DataType
	for _, f := range Expanded(s.Schema).Fields() {
		names, types = append(names, f.Name), append(types, f.Type)
	}
	order := e.order(s.Schema)
	wanted, of := permuted(e.Columns, order), permuted(e.Types, order)
	if !slices.Equal(names, wanted) || !slices.EqualFunc(types, of, func(a, b arrow.DataType) bool { return arrow.TypeEqual(a, b) }) {
		return nil, Difference{"columns differ", fmt.Sprintf("got  %v %v\nwant %v %v", names, types, wanted, of)}
	}
	rows := s.Rows()
	for i, row := range rows {
		plain := make([]any, len(row))
		for k, at := range order {
			plain[at] = row[k]
		}
		rows[i] = plain
	}
	return rows, Difference{}
}

// particular matches the parts of an error that are specific to a case.
var particular = regexp.MustCompile(`"[^"]*"|mem:\S+|[a-z]*[-_]?\d[\w.]*`)

// cause returns an error's kind and text without the parts that are specific to a case.
func cause(err error) string {
	return fault.KindOf(err).String() + ": " + particular.ReplaceAllString(err.Error(), "…")
}

// compareCounts compares the counts of the tables in the report. A table that must not be
// read has no counts.
func (e Expectation) compareCounts(shards []Shard) Difference {
	for name, want := range e.Counts {
		var got joiner.Counts
		known := false
		for _, s := range shards {
			c, ok := s.Report.Staging[name]
			known = known || ok
			got.Add(c.Counts)
		}
		switch unread := slices.Contains(e.Unread, name); {
		case known && unread:
			return Difference{"a table is read that must not be", name}
		case !known && !unread && len(shards) > 0:
			return Difference{"a table is not read that must be", name}
		}
		if known && got != want {
			return Difference{"counts differ", fmt.Sprintf("%s: got %+v\nwant %+v", name, got, want)}
		}
	}
	return Difference{}
}

// byItem sorts rows by the column `item`, which identifies training rows. The sort is stable.
func byItem(columns []string, rows [][]any) [][]any {
	rows = slices.Clone(rows)
	at := slices.Index(columns, "item")
	if at < 0 {
		return rows
	}
	slices.SortStableFunc(rows, func(a, b []any) int { return cell.Compare(a[at], b[at]) })
	return rows
}

// Without returns the texts of a without those of b, as multisets.
func Without(a, b []string) []string {
	left := map[string]int{}
	for _, text := range b {
		left[text]++
	}
	var rest []string
	for _, text := range a {
		if left[text]--; left[text] < 0 {
			rest = append(rest, text)
		}
	}
	return rest
}

// dropped checks a read with tail: drop. All batches must be full, every shard must end at the same
// step, which is the last step that all lanes can fill, and the report must count the missing rows
// as left over.
func (c *Case) dropped(want, got []string, shards []Shard) Difference {
	if surplus := Without(got, want); len(surplus) > 0 {
		return Difference{"rows that do not exist", fmt.Sprint(surplus)}
	}
	q, left, minLeft := c.asked(), int64(0), int64(len(want))
	for _, s := range shards {
		if len(s.Batches) != len(shards[0].Batches) {
			return Difference{"shards end at other steps", fmt.Sprintf("%d and %d", len(s.Batches), len(shards[0].Batches))}
		}
		for _, b := range s.Batches {
			if full := perLane(q) * int64(len(s.Report.Cursor.At)); int64(len(b)) != full && (q.BatchRequests == 0 || int64(len(b)) < full) {
				return Difference{"a batch is not full", fmt.Sprintf("%d of %d rows", len(b), full)}
			}
		}
		lanes := len(s.Report.Cursor.At)
		for _, l := range s.Report.Leftover {
			left += l.Rows + l.Requests
			minLeft = min(minLeft, l.Rows+l.Requests)
		}
		if len(s.Report.Leftover) < lanes {
			minLeft = 0
		}
	}
	missing := int64(len(want) - len(got))
	if q.BatchRequests > 0 && missing >= left && (left > 0 || missing == 0) {
		missing = left // left counts requests, each of which has at least one row
	}
	if missing != left || minLeft >= perLane(q) {
		return Difference{"leftover rows are wrong", fmt.Sprintf("%d rows are missing and %d left over, at least %d in each lane; a step takes %d of each", missing, left, minLeft, perLane(q))}
	}
	return Difference{}
}
