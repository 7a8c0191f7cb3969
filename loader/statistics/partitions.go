package statistics

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/catalog"
)

// maxPartitions is the maximum number of partitions that are compared: the latest ones.
const maxPartitions = 100

// partitions has the rows of some partitions by time of a table. The rows of other partitions are in none of them.
type partitions struct {
	name   string         // of the partition field, such as day(ts); "" without one
	byFile map[string]int // the partition of each file, by location
	names  []string       // in the order of time
	rows   []*stats.Outline
	more   int // partitions that are not compared
}

// TimeField returns the field by which a table is partitioned by time, in the newest partition spec of files that has one: a year,
// month, day or hour, or else a date or text as it is, since days are often texts.
func TimeField(t *catalog.Table, files []catalog.File) (out catalog.PartitionField, found bool) {
	newest := -1
	for _, f := range files {
		if f.Spec <= newest {
			continue
		}
		if field, ok := timeFieldOf(t, t.Specs[f.Spec]); ok {
			out, found, newest = field, true, f.Spec
		}
	}
	return out, found
}

func timeFieldOf(t *catalog.Table, spec catalog.Spec) (catalog.PartitionField, bool) {
	is := func(p catalog.PartitionField) bool { return p.Transform.Kind.IsTime() }
	i := slices.IndexFunc(spec, is)
	if i < 0 {
		i = slices.IndexFunc(spec, func(p catalog.PartitionField) bool {
			column, ok := t.ByID(p.Source)
			return ok && p.Transform.Kind == catalog.Identity && (column.Type.ID() == arrow.DATE32 || column.Type.ID() == arrow.STRING)
		})
	}
	if i < 0 {
		return catalog.PartitionField{}, false
	}
	return spec[i], true
}

// divide divides the files of a table by time, unless this shows values of a hidden column. If of is not nil, only partitions of these
// names are kept, otherwise the latest.
func divide(t *catalog.Table, files []catalog.File, hidden map[int]bool, of *partitions) *partitions {
	out := &partitions{byFile: map[string]int{}}
	field, ok := TimeField(t, files)
	topLevel := slices.ContainsFunc(t.TopLevel(), func(f catalog.Field) bool { return f.ID == field.Source })
	if !ok || hidden[field.Source] || len(hidden) > 0 && !topLevel {
		return out
	}
	column, _ := t.ByID(field.Source)
	out.name = field.Name
	type partition struct {
		name  string
		value any
		files []string
	}
	byName := map[string]*partition{}
	for _, f := range files {
		at := t.Specs[f.Spec].SameField(field)
		if at < 0 || at >= len(f.Partition) {
			continue
		}
		name := field.Text(f.Partition[at], column)
		if byName[name] == nil {
			byName[name] = &partition{name: name, value: f.Partition[at]}
		}
		byName[name].files = append(byName[name].files, f.Location)
	}
	all := make([]*partition, 0, len(byName))
	for name, p := range byName {
		if of == nil || slices.Contains(of.names, name) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *partition) int { return cmp.Or(compareValues(a.value, b.value), cmp.Compare(a.name, b.name)) })
	out.more = max(0, len(all)-maxPartitions)
	for i, p := range all[out.more:] {
		out.names = append(out.names, p.name)
		for _, location := range p.files {
			out.byFile[location] = i
		}
	}
	out.rows = make([]*stats.Outline, len(out.names))
	return out
}

// compareValues compares partition values of one field: numbers by size, and others as equal.
func compareValues(a, b any) int {
	x, okX := a.(int64)
	y, okY := b.(int64)
	if !okX || !okY {
		return 0
	}
	return cmp.Compare(x, y)
}

// collect adds the rows of a file to their partition.
func (d *describing) collect(ctx context.Context, f catalog.File, part *stats.Part) error {
	if d.divided == nil {
		return nil
	}
	i, ok := d.divided.byFile[f.Location]
	if !ok {
		return nil
	}
	rows := part.Outline()
	if d.divided.rows[i] != nil {
		d.divided.rows[i].Merge(rows)
		return nil
	}
	d.divided.rows[i] = rows
	return d.held.GrowWait(ctx, rows.Memory())
}

// table returns the rows to compare.
func (p *partitions) table(whole *stats.Outline) drift.Table {
	out := drift.Table{Rows: whole}
	for i, rows := range p.rows {
		if rows != nil {
			out.Partitions = append(out.Partitions, drift.Partition{Name: p.names[i], Rows: rows})
		}
	}
	return out
}

// release releases the rows. A nil value has none.
func (p *partitions) release() {
	if p == nil {
		return
	}
	for _, rows := range p.rows {
		rows.Release()
	}
}
