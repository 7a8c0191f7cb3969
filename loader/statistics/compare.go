package statistics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
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
	// In has the partitions that have the same alarm, in the order of time, for an alarm of all rows. It is empty if each
	// partition alone is within its limit.
	In []string `json:"in_partitions,omitempty"`
}

// Compare describes a table, and compares it with a base: usually the same table at another snapshot. Errors: those of Describe.
func (d *Describer) Compare(ctx context.Context, request, against Request) (*Result, error) {
	against.Columns, against.MaxColumns, against.Rights = request.Columns, request.MaxColumns, request.Rights
	against.Label, against.Exact, against.NoValues = request.Label, request.Exact, request.NoValues
	of, base := d.dividing(request), d.dividing(against)
	defer of.release()
	defer base.release()
	base.mayLack = true
	if err := of.describe(ctx); err != nil {
		return nil, err
	}
	base.like = of.result.Columns
	base.onFiles = func() { base.divided = divide(base.table, base.files, base.hidden, of.divided) }
	if err := base.describe(ctx); err != nil {
		return nil, err
	}
	comparison, err := compare(ctx, base, of)
	of.result.Against = comparison
	return &of.result, fault.Op(err, "compare table %s", request.History.Name)
}

// dividing returns a description that divides the rows by time.
func (d *Describer) dividing(request Request) *describing {
	out := d.describing(request)
	out.onFiles = func() { out.divided = divide(out.table, out.files, out.hidden, nil) }
	return out
}

// compare compares two tables that were described.
func compare(ctx context.Context, base, of *describing) (*Comparison, error) {
	baseRows, rows := base.whole.Outline(), of.whole.Outline()
	defer baseRows.Release()
	defer rows.Release()
	if err := of.held.GrowWait(ctx, baseRows.Memory()+rows.Memory()); err != nil {
		return nil, err
	}
	baseTable, table := base.divided.table(baseRows), of.divided.table(rows)
	out := NewComparison(baseTable, table)
	out.Table, out.Snapshot, out.Time, out.Rows, out.Sample = base.result.Table, base.result.Snapshot, base.result.Time, base.result.Rows, base.result.Sample
	out.Columns, out.Partition, out.MorePartitions = base.result.Columns, of.divided.name, of.divided.more
	columns := out.Match(arrowFields(base.columns), arrowFields(of.columns))
	changes, err := drift.Tables(baseTable, table, columns, nil, func(bytes int64) error { return of.held.GrowWait(ctx, bytes) })
	if err != nil {
		return nil, err
	}
	drift.Labels(base.result.Label, of.result.Label)
	out.Report(changes, !of.request.NoValues)
	return out, nil
}

// NewComparison returns a comparison of a table with a base that has only the numbers of the rows of partitions.
func NewComparison(base, of drift.Table) *Comparison {
	out := &Comparison{Changes: []drift.Change{}, Alarms: []Alarm{}}
	for _, p := range of.Partitions {
		rows := PartitionRows{Partition: p.Name, Rows: p.Rows.Rows()}
		if same := base.Partition(p.Name).Rows; same != nil {
			rows.BaseRows = same.Rows()
		}
		out.Partitions = append(out.Partitions, rows)
	}
	return out
}

// Report sets the changes and alarms. Without values, frequent values are left out.
func (c *Comparison) Report(changes []drift.Change, values bool) {
	where := drift.Where(changes)
	for _, change := range drift.Alarms(changes) {
		a := Alarm{Change: shown(change, values)}
		a.Text = a.Change.Text()
		if change.Partition == "" {
			a.In = where(change)
			a.Text += c.whereText(a.In)
		}
		c.Alarms = append(c.Alarms, a)
	}
	for _, change := range changes {
		if change.Measure != drift.Top || change.Partition == "" || change.Alarm && !change.PartOfWhole { // there are many frequent values and partitions
			c.Changes = append(c.Changes, shown(change, values))
		}
	}
}

// shown returns the change without a frequent value if values are left out.
func shown(change drift.Change, values bool) drift.Change {
	if change.Measure == drift.Top && !values {
		change.Of = ""
	}
	return change
}

// whereText says in which partitions, in the order of time, the alarm of all rows is found; "" if it is found in none.
func (c *Comparison) whereText(in []string) string {
	all := len(c.Partitions)
	switch {
	case len(in) == 0 || all < 2: //nolint:mnd // one partition has all rows
		return ""
	case len(in) == all:
		return fmt.Sprintf("; in all %d partitions", all)
	}
	text := fmt.Sprintf("; in %d of %d partitions", len(in), all)
	first := slices.IndexFunc(c.Partitions, func(p PartitionRows) bool { return p.Partition == in[0] })
	last := first + len(in) - 1
	switch {
	case len(in) > 1 && last == all-1 && first >= 0:
		return text + ", from " + in[0] + " on"
	case len(in) > 1 && last < all && first >= 0 && c.Partitions[last].Partition == in[len(in)-1]:
		return text + ", from " + in[0] + " to " + in[len(in)-1]
	case len(in) <= shownPartitions:
		return text + ": " + strings.Join(in, ", ")
	default:
		return text + ": " + strings.Join(in[:shownPartitions], ", ") + " and others, the last one " + in[len(in)-1]
	}
}

// shownPartitions is the number of partitions that the text of an alarm of all rows names.
const shownPartitions = 4

// Match returns the columns to compare, and sets those that are not compared.
func (c *Comparison) Match(base, of []arrow.Field) (out []drift.Column) {
	index := func(fields []arrow.Field, name string) int {
		return slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name })
	}
	for i, f := range of {
		k := index(base, f.Name)
		switch {
		case k < 0:
			c.Added = append(c.Added, f.Name)
		case !arrow.TypeEqual(f.Type, base[k].Type):
			c.Retyped = append(c.Retyped, f.Name)
		default:
			out = append(out, drift.Column{Name: f.Name, Base: k, Of: i})
		}
	}
	for _, f := range base {
		if index(of, f.Name) < 0 {
			c.Removed = append(c.Removed, f.Name)
		}
	}
	return out
}
