package catalogtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Table pins the current state of a ref. See catalog.Catalog.
func (m *Memory) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.find(name)
	if err != nil {
		return nil, err
	}
	pin, err := t.resolve(name, ref)
	if err != nil {
		return nil, err
	}
	out := t.at(name, pin)
	out.FixedSchema = ref.Snapshot != 0 || t.refs[ref.Name].tag
	return out, nil
}

// At opens a state that was pinned before. See catalog.Catalog.
func (m *Memory) At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.pinned(name, pin)
	if err != nil {
		return nil, err
	}
	return t.at(name, pin), nil
}

// Files lists the data files of a pinned table. See catalog.Catalog.
func (m *Memory) Files(ctx context.Context, table *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.pinned(table.Name, table.Pin)
	if err != nil {
		return nil, err
	}
	return t.list(table, columns, bounds, func(memoryFile) bool { return true })
}

// list returns the files of a pinned table for which wanted returns true.
func (t *memoryTable) list(table *catalog.Table, columns, bounds []int, wanted func(memoryFile) bool) ([]catalog.File, error) {
	var out []catalog.File
	chain := catalog.NewChain(table.Pin.Snapshot, t.parent)
	for _, f := range t.snapshots[table.Pin.Snapshot].files {
		if !wanted(f) {
			continue
		}
		for _, id := range columns {
			if err := t.written(table, f, id); err != nil {
				return nil, err
			}
		}
		file := f.File
		file.Ranges = pick(f.Ranges, bounds)
		if file.Sequence == 0 {
			file.Rank = chain.Rank(file.Snapshot)
		}
		out = append(out, file)
	}
	catalog.Arrange(out)
	return out, nil
}

func (t *memoryTable) parent(id int64) (int64, bool) {
	s, known := t.snapshots[id]
	return s.parent, known
}

// written returns an error if the table has no column with this id, or if the column is required
// and the schema that was current when the file was added lacks it.
func (t *memoryTable) written(table *catalog.Table, f memoryFile, id int) error {
	now, ok := table.ByID(id)
	if !ok {
		return fault.New(fault.Invalid, "table %s has no column with field id %d", table.Name, id).In(table.Name, "")
	}
	if _, had := fieldByID(t.schemas[f.schema], id); !had && now.Required {
		return catalog.LacksRequired(table.Name, f.Location, now.Name)
	}
	return nil
}

func (m *Memory) find(name string) (*memoryTable, error) {
	if _, err := catalog.Parts(name); err != nil {
		return nil, err
	}
	t, ok := m.tables[name]
	if !ok {
		return nil, catalog.UnknownTable(name, slices.Sorted(maps.Keys(m.tables)))
	}
	return t, nil
}

// pinned returns the table of a pin. It returns an error if the table, the snapshot or the schema
// of the pin no longer exists.
func (m *Memory) pinned(name string, pin dataset.TablePin) (*memoryTable, error) {
	t, err := m.find(name)
	if err != nil {
		return nil, err
	}
	if t.uuid != pin.UUID {
		return nil, catalog.RecreatedTable(name, pin.UUID, t.uuid)
	}
	if _, ok := t.snapshots[pin.Snapshot]; !ok && pin.Snapshot != dataset.NoSnapshot {
		return nil, catalog.ExpiredSnapshot(name, pin.Snapshot)
	}
	if pin.Schema < 0 || pin.Schema >= len(t.schemas) {
		return nil, catalog.ExpiredSchema(name, pin.Schema)
	}
	return t, nil
}

func (t *memoryTable) current() int { return len(t.schemas) - 1 }

// snapshotTimes returns the ids of all snapshots, with times that are one second apart.
func (t *memoryTable) snapshotTimes() (out []catalog.SnapshotTime) {
	for id := range t.snapshots {
		out = append(out, catalog.SnapshotTime{ID: id, Time: time.Unix(id, 0)})
	}
	return out
}

func (t *memoryTable) resolve(name string, ref dataset.Ref) (dataset.TablePin, error) {
	pin := dataset.TablePin{UUID: t.uuid, Schema: t.current()}
	if ref.Snapshot != 0 {
		s, ok := t.snapshots[ref.Snapshot]
		if !ok {
			return pin, catalog.UnknownSnapshot(name, ref.Snapshot, t.snapshotTimes())
		}
		pin.Snapshot, pin.Schema = ref.Snapshot, s.schema
		return pin, nil
	}
	r, ok := t.refs[cmp.Or(ref.Name, mainBranch)]
	switch {
	case ok:
		pin.Snapshot = r.snapshot
		if r.tag {
			pin.Schema = t.snapshots[r.snapshot].schema
		}
	case ref.Name == "" || ref.Name == mainBranch:
		pin.Snapshot = dataset.NoSnapshot
	default:
		return pin, catalog.UnknownRef(name, ref.Name, slices.Sorted(maps.Keys(t.refs)))
	}
	return pin, nil
}

func (t *memoryTable) at(name string, pin dataset.TablePin) *catalog.Table {
	out := &catalog.Table{Name: name, Pin: pin, Specs: maps.Clone(t.specs)}
	for _, f := range t.schemas[pin.Schema] {
		if t.nested(pin.Schema, f) {
			out.Nested = append(out.Nested, f)
		} else {
			out.Fields = append(out.Fields, f)
		}
	}
	return out
}

// nested reports whether a field's name is a path into a column of its schema.
func (t *memoryTable) nested(schema int, f catalog.Field) bool {
	first, _, dotted := strings.Cut(f.Name, ".")
	return dotted && slices.ContainsFunc(t.schemas[schema], func(column catalog.Field) bool {
		return column.Name == first && column.Type.ID() == arrow.STRUCT
	})
}

func fieldByID(fields []catalog.Field, id int) (catalog.Field, bool) {
	i := slices.IndexFunc(fields, func(f catalog.Field) bool { return f.ID == id })
	if i < 0 {
		return catalog.Field{}, false
	}
	return fields[i], true
}

// pick returns the ranges of the columns with these ids, or nil if there are no ids.
func pick(ranges map[int]expr.Range, ids []int) map[int]expr.Range {
	if len(ids) == 0 {
		return nil
	}
	out := map[int]expr.Range{}
	for _, id := range ids {
		if r, ok := ranges[id]; ok {
			out[id] = r
		}
	}
	return out
}
