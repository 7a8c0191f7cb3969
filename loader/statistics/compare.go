package statistics

import (
	"context"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/catalog"
)

// Comparison describes the base of a comparison, and how the values differ from it, as JSON.
type Comparison struct {
	Table    string    `json:"table,omitempty"`
	Dataset  string    `json:"dataset,omitempty"` // instead of a table
	Snapshot int64     `json:"snapshot,omitempty,string"`
	Time     time.Time `json:"time,omitzero"`
	Rows     int64     `json:"rows"`
	Sample   Sample    `json:"sample"`
	// Columns are those of the base. Their histograms have the bins of the table's columns.
	Columns []stats.Summary `json:"columns"`
	// Added and Removed are columns that only the table or only the base has. Retyped have different types. None of them is compared.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Retyped []string `json:"retyped,omitempty"`
	// Partition is the name of the partition field by whose values rows are divided; "" if they are not.
	Partition  string          `json:"partition,omitempty"`
	Partitions []PartitionRows `json:"partitions,omitempty"`
	// MorePartitions is the number of earlier partitions, which are compared only as part of all rows.
	MorePartitions int            `json:"more_partitions,omitempty"`
	Changes        []drift.Change `json:"changes"`
	Alarms         []Alarm        `json:"alarms"` // the changes that are alarms, those that matter most first
}

// PartitionRows counts the rows of a partition.
type PartitionRows struct {
	Partition string `json:"partition"`
	Rows      int64  `json:"rows"`
	BaseRows  int64  `json:"base_rows"`
}

// Alarm is a change beyond its limit.
type Alarm struct {
	drift.Change
	Text string `json:"text"`
}

// Compare describes a table, and compares it with a base: usually the same table at another snapshot. Errors: those of Describe.
func (d *Describer) Compare(ctx context.Context, request, against Request) (*Result, error) {
	against.Columns, against.Exact, against.NoValues = request.Columns, request.Exact, request.NoValues
	of, base := d.dividing(request), d.dividing(against)
	defer of.release()
	defer base.release()
	base.mayLack = true
	if err := of.describe(ctx); err != nil {
		return nil, err
	}
	base.like = of.result.Columns
	base.onFiles = func() { base.divided = divide(base.table, base.files, of.divided) }
	if err := base.describe(ctx); err != nil {
		return nil, err
	}
	c := comparing{base: base, of: of, out: &Comparison{
		Table: against.History.Name, Snapshot: base.result.Snapshot, Time: base.result.Time, Rows: base.result.Rows, Sample: base.result.Sample,
		Columns: base.result.Columns, Changes: []drift.Change{}, Alarms: []Alarm{},
	}}
	if err := c.compare(ctx); err != nil {
		return nil, fault.Op(err, "compare table %s", request.History.Name)
	}
	of.result.Against = c.out
	return &of.result, nil
}

// dividing returns a description that divides the rows by time.
func (d *Describer) dividing(request Request) *describing {
	out := d.describing(request)
	out.onFiles = func() { out.divided = divide(out.table, out.files, nil) }
	return out
}

// comparing is one comparison of two tables that were described.
type comparing struct {
	base, of *describing
	out      *Comparison
}

func (c *comparing) compare(ctx context.Context) error {
	base, of := c.base.whole.Outline(), c.of.whole.Outline()
	defer base.Release()
	defer of.Release()
	if err := c.of.held.GrowWait(ctx, base.Memory()+of.Memory()); err != nil {
		return err
	}
	baseTable, table := c.base.divided.table(base), c.of.divided.table(of)
	changes, err := drift.Tables(baseTable, table, c.columns(), func(bytes int64) error { return c.of.held.GrowWait(ctx, bytes) })
	if err != nil {
		return err
	}
	c.out.Partition, c.out.MorePartitions = c.of.divided.name, c.of.divided.more
	for _, p := range table.Partitions {
		rows := PartitionRows{Partition: p.Name, Rows: p.Rows.Rows()}
		if same := baseTable.Partition(p.Name); same != nil {
			rows.BaseRows = same.Rows()
		}
		c.out.Partitions = append(c.out.Partitions, rows)
	}
	c.out.report(changes, !c.of.request.NoValues)
	return nil
}

// report sets the changes and alarms. Without values, frequent values are left out.
func (c *Comparison) report(changes []drift.Change, values bool) {
	for _, change := range changes {
		if change.Measure == drift.Top && !values {
			change.Of = ""
		}
		if change.Measure != drift.Top || change.Partition == "" || change.Alarm { // there are many frequent values and partitions
			c.Changes = append(c.Changes, change)
		}
	}
	for _, change := range drift.Alarms(c.Changes) {
		c.Alarms = append(c.Alarms, Alarm{Change: change, Text: change.Text()})
	}
}

// columns returns the columns to compare, and sets those that are not compared.
func (c *comparing) columns() (out []drift.Column) {
	index := func(fields []catalog.Field, name string) int {
		return slices.IndexFunc(fields, func(f catalog.Field) bool { return f.Name == name })
	}
	for i, f := range c.of.columns {
		k := index(c.base.columns, f.Name)
		switch {
		case k < 0:
			c.out.Added = append(c.out.Added, f.Name)
		case !arrow.TypeEqual(f.Type, c.base.columns[k].Type):
			c.out.Retyped = append(c.out.Retyped, f.Name)
		default:
			out = append(out, drift.Column{Name: f.Name, Base: k, Of: i})
		}
	}
	for _, f := range c.base.columns {
		if index(c.of.columns, f.Name) < 0 {
			c.out.Removed = append(c.out.Removed, f.Name)
		}
	}
	return out
}
