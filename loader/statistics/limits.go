package statistics

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Check describes the columns of a table that have limits, and checks the limits. Changes are measured with the table of against,
// unless against is nil. It reads no column without limits. Only the snapshots and Progress of the requests are used.
//
// Errors: NotFound for a column that does not exist, Invalid for a measure that the values of a column do not have, and the errors of
// Describe.
func (d *Describer) Check(ctx context.Context, request Request, against *Request, limits dataset.Limits) (*drift.Checked, error) {
	c := checking{Describer: d, limits: limits, of: d.dividing(request), bySeries: drift.Limits{}}
	defer c.of.release()
	for _, l := range limits.Columns {
		c.bySeries[l.Column] = drift.SeriesLimits{Bounds: byMeasure(l.Bounds), Changes: byMeasure(l.Changes)}
	}
	err := c.check(ctx, against)
	return &c.out, fault.Op(err, "check the limits of table %s", request.History.Name)
}

func byMeasure(limits []dataset.Limit) map[drift.Measure]float64 {
	out := make(map[drift.Measure]float64, len(limits))
	for _, l := range limits {
		out[drift.Measure(l.Measure)] = l.Value
	}
	return out
}

// checking is one call of Check.
type checking struct {
	*Describer
	limits   dataset.Limits
	bySeries drift.Limits
	of       *describing
	out      drift.Checked
}

func (c *checking) check(ctx context.Context, against *Request) error {
	c.of.onTable = func() { c.of.request.Columns = c.columns(func(dataset.ColumnLimits) bool { return true }) }
	if err := c.of.readTable(ctx); err != nil {
		return err
	}
	whole := c.of.whole.Outline()
	defer whole.Release()
	if err := c.of.held.GrowWait(ctx, whole.Memory()); err != nil {
		return err
	}
	table := c.of.divided.table(whole)
	if err := c.measurable(ctx, whole); err != nil {
		return err
	}
	c.out = drift.Checked{
		Table: c.of.result.Table, Snapshot: c.of.result.Snapshot, Rows: c.of.result.Rows, Partition: c.of.divided.name, Partitions: len(table.Partitions),
	}
	for _, l := range c.limits.Columns {
		c.out.Columns = append(c.out.Columns, l.Column)
	}
	columns := make([]drift.Column, len(c.of.columns))
	for i, f := range c.of.columns {
		columns[i] = drift.Column{Name: f.Name, Of: i}
	}
	broken, err := drift.Beyond(table, columns, c.bySeries, func(bytes int64) error { return c.of.held.GrowWait(ctx, bytes) })
	if err != nil {
		return err
	}
	changes, err := c.changes(ctx, against, table)
	if err != nil {
		return err
	}
	c.out.Broken = append([]drift.Change{}, drift.Alarms(append(broken, changes...))...)
	return nil
}

// columns returns the columns of the table with the series of those limits that a function accepts. If there is no such column, the
// name of the series is among them.
func (c *checking) columns(of func(dataset.ColumnLimits) bool) (out []string) {
	for _, l := range c.limits.Columns {
		if !of(l) {
			continue
		}
		column := ""
		for _, name := range c.of.table.Names() {
			if name == l.Column || len(name) > len(column) && strings.HasPrefix(l.Column, name+".") {
				column = name
			}
			if name == l.Column {
				break
			}
		}
		if column == "" {
			column = l.Column
		}
		if !slices.Contains(out, column) {
			out = append(out, column)
		}
	}
	return out
}

// measurable returns an error if a series with limits does not exist, or if its values do not have a measure.
func (c *checking) measurable(ctx context.Context, rows *stats.Outline) error {
	bytes := int64(0)
	for i := range c.of.columns {
		bytes = max(bytes, rows.ProfileMemory(i))
	}
	if err := c.of.held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	defer c.of.held.Shrink(bytes)
	all := map[string]*stats.Profile{}
	for i, f := range c.of.columns {
		for _, p := range rows.Profiles(i, f.Name) {
			all[p.Name] = &stats.Profile{Type: p.Type, Scale: p.Scale, HasZeros: p.HasZeros} // without the sample
		}
	}
	for _, l := range c.limits.Columns {
		of, ok := all[l.Column]
		if !ok {
			return fault.New(fault.NotFound, "column %q, which has limits, is neither a column whose values are described nor one of its lengths, norms or elements", l.Column).
				In(c.of.request.History.Name, "").WithRemedy("penstock stats %s lists the columns that may have limits", c.of.request.History.Name)
		}
		for _, m := range slices.Concat(l.Bounds, l.Changes) {
			if !drift.Measurable(of, drift.Measure(m.Measure)) {
				return fault.New(fault.Invalid, "column %q has the limit %s, which values of type %s do not have", l.Column, m.Measure, of.Type).
					In(c.of.request.History.Name, "").WithRemedy("remove this limit from the dataset")
			}
		}
	}
	return nil
}

// changes returns the changes since the base that are beyond their limits.
func (c *checking) changes(ctx context.Context, against *Request, table drift.Table) ([]drift.Change, error) {
	if against == nil || !c.limits.Changing() {
		return nil, nil
	}
	ref, err := against.History.RefAt(against.At)
	if err != nil {
		return nil, err
	}
	state, err := c.options.Tables.Table(ctx, against.History.Name, ref)
	if err != nil {
		return nil, err
	}
	if !state.HasSnapshot() || state.Pin.Snapshot == c.out.Snapshot {
		return nil, nil
	}
	base := c.dividing(*against)
	defer base.release()
	base.mayLack = true
	base.request.Columns = c.columns(func(l dataset.ColumnLimits) bool { return len(l.Changes) > 0 })
	base.onFiles = func() { base.divided = divide(base.table, base.files, base.hidden, c.of.divided) }
	if err := base.readTable(ctx); err != nil {
		return nil, err
	}
	return c.compare(ctx, base, table)
}

// compare compares the series that have limits of changes with those of a base.
func (c *checking) compare(ctx context.Context, base *describing, table drift.Table) ([]drift.Change, error) {
	whole := base.whole.Outline()
	defer whole.Release()
	if err := base.held.GrowWait(ctx, whole.Memory()); err != nil {
		return nil, err
	}
	c.out.Base, c.out.BaseRows = base.result.Snapshot, base.result.Rows
	baseTable := base.divided.table(whole)
	comparison := NewComparison(baseTable, table)
	changing := slices.DeleteFunc(slices.Clone(c.of.columns), func(f catalog.Field) bool { return !slices.Contains(base.request.Columns, f.Name) })
	columns := comparison.Match(arrowFields(base.columns), arrowFields(changing))
	for i := range columns { // Match counts the columns of changing
		columns[i].Of = slices.IndexFunc(c.of.columns, func(f catalog.Field) bool { return f.Name == columns[i].Name })
	}
	c.out.NotCompared = slices.Concat(comparison.Added, comparison.Retyped)
	changes, err := drift.Tables(baseTable, table, columns, c.bySeries, func(bytes int64) error { return base.held.GrowWait(ctx, bytes) })
	return slices.DeleteFunc(changes, func(change drift.Change) bool { return !change.Alarm }), err
}
