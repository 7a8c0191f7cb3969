package entries

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/statistics"
)

// Compare describes a dataset, and compares its columns, ages and match rates with those of another dataset. Columns and
// entries are matched by their names. Errors: those of Describe.
func Compare(ctx context.Context, o Options, request Request, against string) (*Result, error) {
	of, err := newDescribing(o, request)
	if err != nil {
		return nil, err
	}
	defer of.release()
	request.Dataset, request.Rights = against, request.BaseRights
	base, err := newDescribing(o, request)
	if err != nil {
		return nil, err
	}
	defer base.release()
	base.mayLack = true
	for _, d := range []*describing{of, base} {
		if err := d.describe(ctx); err != nil {
			return nil, fault.Op(err, "describe dataset %s", d.dataset.Name)
		}
		base.like = of.result.summaries()
	}
	if err := of.keys(ctx); err != nil { // those of the base are in no result
		return nil, fault.Op(err, "describe dataset %s", of.dataset.Name)
	}
	of.result.Against, err = compare(ctx, base, of)
	return &of.result, fault.Op(err, "compare dataset %s", of.dataset.Name)
}

// summaries returns the summaries of all columns and ages.
func (r *Result) summaries() []stats.Summary {
	out := slices.Clone(r.Columns)
	for _, e := range r.Entries {
		out = append(out, e.Columns...)
		if e.Age != nil {
			out = append(out, *e.Age)
		}
	}
	return out
}

func compare(ctx context.Context, base, of *describing) (*statistics.Comparison, error) {
	baseRows, rows := base.table(), of.table()
	defer baseRows.Rows.Release()
	defer rows.Rows.Release()
	out := statistics.NewComparison(baseRows, rows)
	out.Dataset, out.Snapshot, out.Rows, out.Sample, out.Partition = base.dataset.Name, base.result.Snapshot, base.result.Rows, base.result.Sample, of.result.Partition
	out.Columns = base.result.summaries()
	columns := out.Match(base.fields, of.fields)
	ofTimes := func(name string) bool { return of.isTime(name) || base.isTime(name) } // of an entry that only one of them has
	out.Added, out.Removed = slices.DeleteFunc(out.Added, ofTimes), slices.DeleteFunc(out.Removed, ofTimes)
	for i := range columns {
		if e := of.entryOf(columns[i].Of); e >= 0 {
			columns[i].Entry = of.dataset.Staging[e].Name
		}
	}
	changes, err := drift.Tables(baseRows, rows, columns, nil, func(bytes int64) error {
		return of.held.GrowWait(ctx, bytes+baseRows.Rows.Memory()+rows.Rows.Memory())
	})
	if err != nil {
		return nil, err
	}
	drift.Labels(base.result.Label, of.result.Label)
	out.Report(append(matchRates(&base.result, &of.result), of.ofEntries(changes)...), !of.request.NoValues)
	of.result.explain(out.Alarms)
	return out, nil
}

// explain adds the note of each entry to the text of the first alarm of its match rate.
func (r *Result) explain(alarms []statistics.Alarm) {
	for _, e := range r.Entries {
		at := slices.IndexFunc(alarms, func(a statistics.Alarm) bool { return a.Entry == e.Name && a.Measure == drift.MatchRate })
		if at >= 0 && e.Note != "" {
			alarms[at].Text += "; " + e.Note
		}
	}
}

// ofEntries completes the changes of series that are no columns: ages have seconds, and times only shifts, since the nulls of both are
// rows without a match.
func (d *describing) ofEntries(changes []drift.Change) []drift.Change {
	ages := map[string]bool{}
	for at, entry := range d.ages {
		ages[d.fields[len(d.columns)+at].Name] = d.ageUnit(entry) != ""
	}
	for i := range changes {
		c := &changes[i]
		if c.Measure == drift.Shift && d.isTime(c.Column) {
			c.Of = drift.OfMatches
		}
		c.InSeconds = c.InSeconds || ages[c.Column] && slices.Contains([]drift.Measure{drift.Unit, drift.Mean, drift.Quantile}, c.Measure)
	}
	return slices.DeleteFunc(changes, func(c drift.Change) bool { return d.isTime(c.Column) && c.Measure != drift.Shift })
}

// isTime reports whether a name is that of the times of an entry.
func (d *describing) isTime(name string) bool {
	return slices.ContainsFunc(d.fields[len(d.columns)+len(d.ages):], func(f arrow.Field) bool { return f.Name == name })
}

// matchRates compares the match rates of entries, as a whole and in each partition.
func matchRates(base, of *Result) (out []drift.Change) {
	t := drift.NewTest(len(of.Entries) * (1 + len(of.Partitions)))
	for _, e := range of.Entries {
		at := slices.IndexFunc(base.Entries, func(b Entry) bool { return b.Name == e.Name && b.Matches != nil })
		if at < 0 || e.Matches == nil {
			continue
		}
		b := base.Entries[at]
		all := b.matched()
		whole := drift.Matches(e.Name, all, e.matched(), t)
		var partitions []drift.Change
		for i, p := range e.Partitions {
			from := all
			if k := slices.IndexFunc(b.Partitions, func(o PartitionMatch) bool { return o.Partition == p.Partition }); k >= 0 {
				from = b.matchedIn(k)
			}
			for _, c := range drift.Matches(e.Name, from, e.matchedIn(i), t) {
				c.Partition = p.Partition
				partitions = append(partitions, c)
			}
		}
		out = append(out, whole...)
		out = append(out, drift.Settle(whole, partitions, len(e.Partitions))...)
	}
	return out
}

func (e *Entry) matched() drift.Matched {
	return drift.Matched{Rows: e.Matches.Rows, Matched: e.Matches.Matched, Effect: e.effect}
}

// matchedIn counts the rows of a partition, given its position.
func (e *Entry) matchedIn(at int) drift.Matched {
	p := e.Partitions[at]
	return drift.Matched{Rows: p.Rows, Matched: p.Matched, Effect: e.effects[at]}
}
