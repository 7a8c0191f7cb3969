package entries

import (
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/stream"
)

// Output is a column of a dataset.
type Output = resolve.Output

// agesOf returns how much older the staging row is than the training row, and null in rows without a match.
func (d *describing) agesOf(b arrow.RecordBatch, m marked) arrow.Array {
	builder := array.NewFloat64Builder(memory.DefaultAllocator)
	defer builder.Release()
	builder.Reserve(int(b.NumRows()))
	training, staging := b.Column(m.training), b.Column(m.staging)
	matched, _ := column[*array.Boolean](b, m.matched)
	unit := secondsOf(training.DataType())
	for i := range int(b.NumRows()) {
		from, okFrom := batch.IntegerAt(staging, i)
		to, okTo := batch.IntegerAt(training, i)
		if !matched.Value(i) || !okFrom || !okTo || training.IsNull(i) || staging.IsNull(i) {
			builder.AppendNull()
			continue
		}
		builder.Append((float64(to) - float64(from)) * unit)
	}
	return builder.NewArray()
}

// secondsOf returns the length of a unit of a time column in seconds; 1 for integers, whose unit is unknown.
func secondsOf(t arrow.DataType) float64 {
	const day = 24 * 60 * 60
	switch t := t.(type) {
	case *arrow.Date32Type:
		return day
	case *arrow.TimestampType:
		return t.Unit.Multiplier().Seconds()
	default:
		return 1
	}
}

// order returns the partitions in the order of their values.
func (d *describing) order() []int32 {
	return slices.SortedFunc(maps.Keys(d.days), func(a, b int32) int { return d.divider.Compare(int(a), int(b)) })
}

// name returns the name of a partition.
func (d *describing) name(p int32) string {
	column, _ := d.planned.Relation.Training.ByID(d.by.Source)
	return d.by.Text(d.divider.Values(int(p))[0], column)
}

// report sets the result.
func (d *describing) report(of stream.Report) {
	out := &d.result
	training := d.planned.Relation.Training
	out.Version, out.Dataset, out.Training, out.Rows, out.Names = 1, d.dataset.Name, training.Name, d.read, stats.Quantiles
	out.Snapshot = snapshotOf(training.Pin)
	out.Sample = statistics.Sample{
		Rows: d.whole.Sampled, Rate: d.sampling().Rate(), QuantileError: stats.QuantileError(d.whole.Sampled, d.read), DistinctError: stats.DistinctError,
	}
	out.Columns = d.summaries(resolve.TrainingTable)
	if d.divider != nil {
		for _, p := range d.order() {
			out.Partitions = append(out.Partitions, Partition{Partition: d.name(p), Rows: d.days[p].counted})
		}
	}
	for i, s := range d.planned.Relation.Staging {
		if !d.asked(i) {
			continue
		}
		e := Entry{Name: s.Name, Table: s.Table, Snapshot: snapshotOf(s.Pinned.Pin), Promoted: s.Promoted != nil, Columns: d.summaries(i)}
		if !e.Promoted {
			d.matches(&e, i, of.Staging[s.Name])
		}
		out.Entries = append(out.Entries, e)
	}
}

// matches sets the counts of matches and the ages of an entry.
func (d *describing) matches(e *Entry, entry int, of stream.StagingReport) {
	m := &Matches{Rows: d.read, NullKeys: of.NullKeys, Duplicates: of.Duplicates}
	for _, day := range d.days {
		m.Matched += day.matched[entry]
	}
	m.MatchRate, e.Matches, e.effect = rate(m.Matched, m.Rows), m, d.allClusters()[entry].Effect()
	if d.divider != nil {
		for _, p := range d.order() {
			day := d.days[p]
			e.Partitions = append(e.Partitions, PartitionMatch{
				Partition: d.name(p), Rows: day.counted, Matched: day.matched[entry], MatchRate: rate(day.matched[entry], day.counted),
			})
			e.effects = append(e.effects, day.clusters[entry].Effect())
		}
	}
	if at := slices.Index(d.ages, entry); at >= 0 {
		e.AgeUnit = d.ageUnit(entry)
		e.Age = &d.whole.Summarize(len(d.columns)+at, d.fields[len(d.columns)+at].Name, false, d.like)[0]
	}
}

// ageUnit returns the unit of the ages of an entry, as in Entry.
func (d *describing) ageUnit(entry int) string {
	if d.planned.Relation.Staging[entry].Time.Training.Type.ID() == arrow.INT64 {
		return ""
	}
	return "s"
}

// summaries returns the summaries of the columns of a table of the dataset.
func (d *describing) summaries(table int) []stats.Summary {
	out := []stats.Summary{}
	for i, at := range d.columns {
		if d.planned.Outputs[at].Table == table {
			out = append(out, d.whole.Summarize(i, d.fields[i].Name, !d.request.NoValues, d.like)...)
		}
	}
	return out
}
