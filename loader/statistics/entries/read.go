package entries

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/partition"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/statistics"
)

// describing is one call of Describe.
type describing struct {
	Options
	request Request
	dataset dataset.Dataset
	pin     dataset.Pin
	planned loader.Planned
	own     []string // the names of the dataset's own columns
	marks   []marked // by entry

	held    *budget.Reservation
	level   int
	columns []int // the outputs to describe
	ages    []int // the entries whose ages follow the columns
	times   []int // the entries whose times follow the ages, for comparisons
	fields  []arrow.Field
	by      catalog.PartitionField // of the partitions
	divider *partition.Divider     // nil: rows are not divided
	whole   *stats.Part
	part    *stats.Part // the latest rows, all of partition at; nil: none
	at      int32
	days    map[int32]*day
	read    int64
	like    []stats.Summary // whose bins the histograms take; it may be nil
	mayLack bool            // whether the dataset may lack the label
	result  Result
}

// day has the rows of a partition.
type day struct {
	rows     *stats.Outline
	counted  int64
	matched  []int64          // by entry
	clusters []stats.Clusters // by entry: the training rows that join the same staging row are a cluster
}

// release releases the rows and their memory.
func (d *describing) release() {
	d.whole.Release()
	d.part.Release()
	for _, day := range d.days {
		day.rows.Release()
	}
	if d.held != nil {
		d.held.Release()
	}
}

func (d *describing) describe(ctx context.Context) (err error) {
	if err := d.plan(ctx); err != nil {
		return err
	}
	d.choose()
	if err := policy.AsSeen(statistics.CheckColumns(len(d.fields)-len(d.times), d.request.MaxColumns)); err != nil {
		return err
	}
	label := -1
	if d.request.Label != "" {
		label, err = stats.FindLabel(d.request.Label, d.fields)
		switch {
		case err != nil && !d.mayLack:
			return policy.AsSeen(err)
		case err != nil:
			label = -1
		}
	}
	if err := d.divide(); err != nil {
		return err
	}
	if !d.request.Exact {
		d.level = stats.LevelFor(d.planned.StoredRows, statistics.SampleRows)
	}
	if d.held, err = d.Budget.ReserveFor(ctx, "the statistics of dataset "+d.dataset.Name, 0); err != nil {
		return err
	}
	d.whole, d.days = stats.NewPart(d.fields, d.sampling()), map[int32]*day{}
	if err := d.held.GrowWait(ctx, 2*d.whole.Memory()); err != nil { //nolint:mnd // of all rows, and of the latest ones
		return err
	}
	report, err := d.readAll(ctx)
	if err != nil {
		return err
	}
	var bytes int64 // of one column at a time
	for i := range d.fields {
		bytes = max(bytes, d.whole.SummaryMemory(i))
	}
	if err := d.held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	d.report(report)
	d.held.Shrink(bytes)
	if label >= 0 {
		if err := d.held.GrowWait(ctx, d.whole.LabelMemory()); err != nil {
			return err
		}
		d.result.Label = d.whole.Label(label, d.fields)
	}
	return nil
}

// sampling selects rows by their numbers in the stream, whose order does not depend on anything but the tables.
func (d *describing) sampling() stats.Sampling { return stats.Sampling{Level: d.level} }

// choose sets the columns to describe.
func (d *describing) choose() {
	for i, o := range d.planned.Outputs {
		named := len(d.request.Columns) == 0 && slices.Contains(d.own, o.Name) ||
			slices.Contains(d.request.Columns, o.Name) || d.request.Label == o.Name && slices.Contains(d.own, o.Name)
		if !named {
			continue
		}
		if part := stats.NotDescribed(o.Name, o.Type()); part != "" {
			d.result.Left = append(d.result.Left, part)
		}
		if stats.Describes(o.Type()) {
			d.columns = append(d.columns, i)
			d.fields = append(d.fields, arrow.Field{Name: o.Name, Type: o.Type(), Nullable: true})
		}
	}
	for i, m := range d.marks {
		if m.matched >= 0 && m.training >= 0 && m.staging >= 0 && d.asked(i) {
			d.ages = append(d.ages, i)
			d.fields = append(d.fields, arrow.Field{Name: d.dataset.Staging[i].Name + ageSuffix, Type: arrow.PrimitiveTypes.Float64, Nullable: true})
		}
	}
	for _, i := range d.ages {
		if of := d.planned.Outputs[d.marks[i].staging].Type(); of.ID() == arrow.TIMESTAMP {
			d.times = append(d.times, i)
			d.fields = append(d.fields, arrow.Field{Name: d.dataset.Staging[i].Name + timeSuffix, Type: of, Nullable: true})
		}
	}
}

// The names of series that are no columns of the dataset follow the name of their entry.
const (
	ageSuffix  = ".age"
	timeSuffix = ".time" // the times of the staging rows that match
)

// asked reports whether the request is about an entry: it names no columns, or one of the entry.
func (d *describing) asked(entry int) bool {
	return len(d.request.Columns) == 0 || slices.ContainsFunc(d.planned.Outputs, func(o Output) bool {
		return o.Table == entry && slices.Contains(d.request.Columns, o.Name)
	})
}

// divide decides by which column rows are divided: that of the partitions by time of the training table, or else the day of the time of
// an entry.
func (d *describing) divide() (err error) {
	t := d.planned.Relation.Training
	var files []catalog.File
	for _, s := range d.planned.Splits {
		for _, f := range s.Files {
			files = append(files, f.File)
		}
	}
	field, ok := statistics.TimeField(t, files)
	if !ok {
		for _, s := range d.planned.Relation.Staging {
			if s.Time != nil && s.Time.Training.Type.ID() != arrow.INT64 {
				field, ok = catalog.PartitionField{Source: s.Time.Training.ID, Name: "day(" + s.Time.Training.Name + ")", Transform: catalog.Transform{Kind: catalog.Day}}, true
				break
			}
		}
	}
	at := slices.IndexFunc(d.planned.Outputs, func(o Output) bool {
		return o.Table < 0 && o.Field.ID == field.Source && len(o.Overlays) == 0
	})
	if !ok || at < 0 {
		return nil
	}
	d.by, d.result.Partition = field, field.Name
	d.divider, err = partition.New(d.schema(), []partition.By{{Column: at, Transform: field.Transform}})
	return err
}

// schema returns the schema of the stream.
func (d *describing) schema() *arrow.Schema {
	fields := make([]arrow.Field, len(d.planned.Outputs))
	for i, o := range d.planned.Outputs {
		fields[i] = arrow.Field{Name: o.Name, Type: o.Type(), Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// table returns the rows to compare. The caller releases the outline of all rows.
func (d *describing) table() drift.Table {
	out := drift.Table{Rows: d.whole.Outline(), Effects: d.effects(d.allClusters())}
	if d.divider == nil {
		return out
	}
	for _, p := range d.order() {
		out.Partitions = append(out.Partitions, drift.Partition{Name: d.name(p), Rows: d.days[p].rows, Effects: d.effects(d.days[p].clusters)})
	}
	return out
}
