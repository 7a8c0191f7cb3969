package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// mainBranch is the branch that the zero Ref names.
const mainBranch = "main"

// Memory is a Catalog whose tables and files are values. Tests of the core
// use it: locations are any strings, and nothing is read or written.
//
// What it makes is predictable: the first table's uuid ends in 1, the next
// one's in 2, and so on; the snapshots of a table are 1, 2, 3 …, and so are
// sequence numbers. Mutators answer misuse with Invalid or NotFound.
type Memory struct {
	mu     sync.RWMutex
	tables map[string]*memoryTable
	made   int // tables so far, dropped ones too
}

type memoryTable struct {
	uuid      string
	schemas   [][]Field // by schema id; the last one is current
	specs     map[int]Spec
	snapshots map[int64]memorySnapshot
	refs      map[string]memoryRef
	last      int64 // snapshot id and sequence number
}

type memorySnapshot struct {
	schema int
	files  []memoryFile // by (sequence, location)
}

// memoryFile is a file and the schema that was current when it was added.
type memoryFile struct {
	File
	schema int
}

type memoryRef struct {
	snapshot int64
	tag      bool
}

// Commit is a change of a table's files.
type Commit struct {
	Branch string   // "" is main
	Remove []string // locations of files of the branch
	Add    []File   // a Sequence of 0 becomes the commit's own
}

// NewMemory makes a catalog without tables.
func NewMemory() *Memory {
	return &Memory{tables: map[string]*memoryTable{}}
}

// AddTable makes an empty table of schema 0. Specs may be nil: files then have
// spec 0, without fields. The values are kept, not copied deeply.
func (m *Memory) AddTable(name string, fields []Field, specs map[int]Spec) error {
	if _, err := Parts(name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.tables[name]; ok {
		return fault.New(fault.Invalid, "table %s exists", name).In(name, "")
	}
	specs = maps.Clone(specs)
	if specs == nil {
		specs = map[int]Spec{0: nil}
	}
	m.made++
	m.tables[name] = &memoryTable{
		uuid:      fmt.Sprintf("00000000-0000-4000-8000-%012d", m.made),
		schemas:   [][]Field{slices.Clone(fields)},
		specs:     specs,
		snapshots: map[int64]memorySnapshot{},
		refs:      map[string]memoryRef{},
	}
	return nil
}

// Drop removes a table. One made later under its name has another uuid.
func (m *Memory) Drop(name string) error {
	return m.change(name, func(*memoryTable) error {
		delete(m.tables, name)
		return nil
	})
}

// Append adds files to main and returns the new snapshot's id.
func (m *Memory) Append(name string, files ...File) (int64, error) {
	return m.Commit(name, Commit{Add: files})
}

// Commit makes a snapshot of a branch and returns its id. A branch that does
// not exist yet begins empty.
func (m *Memory) Commit(name string, c Commit) (int64, error) {
	branch := cmp.Or(c.Branch, mainBranch)
	var id int64
	err := m.change(name, func(t *memoryTable) error {
		ref := t.refs[branch]
		if ref.tag {
			return fault.New(fault.Invalid, "%s of table %s is a tag", branch, name).In(name, "")
		}
		files := slices.Clone(t.snapshots[ref.snapshot].files)
		for _, location := range c.Remove {
			i := slices.IndexFunc(files, func(f memoryFile) bool { return f.Location == location })
			if i < 0 {
				return fault.New(fault.Invalid, "branch %s of table %s has no file %s", branch, name, location).In(name, location)
			}
			files = slices.Delete(files, i, i+1)
		}
		for _, f := range c.Add {
			if err := t.check(name, f); err != nil {
				return err
			}
			f.Sequence = cmp.Or(f.Sequence, t.last+1)
			files = append(files, memoryFile{File: f, schema: t.current()})
		}
		slices.SortStableFunc(files, func(a, b memoryFile) int { return byOrder(a.File, b.File) })
		t.last++
		id = t.last
		t.snapshots[id] = memorySnapshot{schema: t.current(), files: files}
		t.refs[branch] = memoryRef{snapshot: id}
		return nil
	})
	return id, err
}

// Branch lets a branch stand at a snapshot.
func (m *Memory) Branch(name, branch string, snapshot int64) error {
	return m.setRef(name, branch, memoryRef{snapshot: snapshot})
}

// Tag lets a tag stand at a snapshot.
func (m *Memory) Tag(name, tag string, snapshot int64) error {
	return m.setRef(name, tag, memoryRef{snapshot: snapshot, tag: true})
}

func (m *Memory) setRef(name, ref string, to memoryRef) error {
	return m.change(name, func(t *memoryTable) error {
		if _, ok := t.snapshots[to.snapshot]; !ok {
			return UnknownSnapshot(name, to.snapshot, slices.Sorted(maps.Keys(t.snapshots)))
		}
		t.refs[ref] = to
		return nil
	})
}

// Alter gives a table a new current schema and returns its id.
func (m *Memory) Alter(name string, fields []Field) (int, error) {
	var id int
	err := m.change(name, func(t *memoryTable) error {
		t.schemas = append(t.schemas, slices.Clone(fields))
		id = t.current()
		return nil
	})
	return id, err
}

// Expire forgets a snapshot at which no branch or tag stands.
func (m *Memory) Expire(name string, snapshot int64) error {
	return m.change(name, func(t *memoryTable) error {
		for ref, r := range t.refs {
			if r.snapshot == snapshot {
				return fault.New(fault.Invalid, "%s of table %s stands at snapshot %d", ref, name, snapshot).In(name, "")
			}
		}
		delete(t.snapshots, snapshot)
		return nil
	})
}

// Table pins the state that a ref names now. See Catalog.
func (m *Memory) Table(ctx context.Context, name string, ref dataset.Ref) (*Table, error) {
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
	return t.at(name, pin), nil
}

// At opens a state that was pinned before. See Catalog.
func (m *Memory) At(ctx context.Context, name string, pin dataset.TablePin) (*Table, error) {
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

// Files lists the data files of a pinned table. See Catalog.
func (m *Memory) Files(ctx context.Context, table *Table, columns []int, bounds []int) ([]File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.pinned(table.Name, table.Pin)
	if err != nil {
		return nil, err
	}
	var out []File
	for _, f := range t.snapshots[table.Pin.Snapshot].files {
		for _, id := range columns {
			if err := t.unchanged(table, f, id); err != nil {
				return nil, err
			}
		}
		file := f.File
		file.Ranges = pick(f.Ranges, bounds)
		out = append(out, file)
	}
	return out, nil
}

// unchanged is an error if a column had another name or type in the schema
// that a file was added under.
func (t *memoryTable) unchanged(table *Table, f memoryFile, id int) error {
	now, ok := fieldByID(table.Fields, id)
	if !ok {
		return fault.New(fault.Invalid, "table %s has no column with field id %d", table.Name, id).In(table.Name, "")
	}
	was, ok := fieldByID(t.schemas[f.schema], id)
	switch {
	case !ok:
		return nil
	case was.Name != now.Name:
		return ChangedColumn(table.Name, f.Location, now.Name, fmt.Sprintf("was %q", was.Name))
	case !arrow.TypeEqual(was.Type, now.Type):
		return ChangedColumn(table.Name, f.Location, now.Name, fmt.Sprintf("was %s", was.Type))
	default:
		return nil
	}
}

func (m *Memory) change(name string, f func(*memoryTable) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(name)
	if err != nil {
		return err
	}
	return f(t)
}

func (m *Memory) find(name string) (*memoryTable, error) {
	if _, err := Parts(name); err != nil {
		return nil, err
	}
	t, ok := m.tables[name]
	if !ok {
		return nil, UnknownTable(name, slices.Sorted(maps.Keys(m.tables)))
	}
	return t, nil
}

// pinned finds the table that a pin is of, if all of the pin still exists.
func (m *Memory) pinned(name string, pin dataset.TablePin) (*memoryTable, error) {
	t, err := m.find(name)
	if err != nil {
		return nil, err
	}
	if t.uuid != pin.UUID {
		return nil, RecreatedTable(name, pin.UUID, t.uuid)
	}
	if _, ok := t.snapshots[pin.Snapshot]; !ok && pin.Snapshot != dataset.NoSnapshot {
		return nil, ExpiredSnapshot(name, pin.Snapshot)
	}
	if pin.Schema < 0 || pin.Schema >= len(t.schemas) {
		return nil, ExpiredSchema(name, pin.Schema)
	}
	return t, nil
}

func (t *memoryTable) current() int { return len(t.schemas) - 1 }

func (t *memoryTable) resolve(name string, ref dataset.Ref) (dataset.TablePin, error) {
	pin := dataset.TablePin{UUID: t.uuid, Schema: t.current()}
	if ref.Snapshot != 0 {
		s, ok := t.snapshots[ref.Snapshot]
		if !ok {
			return pin, UnknownSnapshot(name, ref.Snapshot, slices.Sorted(maps.Keys(t.snapshots)))
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
		return pin, UnknownRef(name, ref.Name, slices.Sorted(maps.Keys(t.refs)))
	}
	return pin, nil
}

func (t *memoryTable) at(name string, pin dataset.TablePin) *Table {
	return &Table{Name: name, Pin: pin, Fields: slices.Clone(t.schemas[pin.Schema]), Specs: maps.Clone(t.specs)}
}

// check holds a file to what File promises.
func (t *memoryTable) check(name string, f File) error {
	spec, ok := t.specs[f.Spec]
	if !ok {
		return fault.New(fault.Invalid, "table %s has no partition spec %d", name, f.Spec).In(name, f.Location)
	}
	if len(spec) != len(f.Partition) {
		return fault.New(fault.Invalid, "file %s has %d partition values, its spec has %d fields",
			f.Location, len(f.Partition), len(spec)).In(name, f.Location)
	}
	for i, v := range f.Partition {
		switch v.(type) {
		case nil, bool, int64, float64, string:
		default:
			return fault.New(fault.Invalid, "partition value %d of file %s is a %T", i, f.Location, v).In(name, f.Location)
		}
	}
	return nil
}

func fieldByID(fields []Field, id int) (Field, bool) {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.ID == id })
	if i < 0 {
		return Field{}, false
	}
	return fields[i], true
}

// pick returns the ranges of the columns asked for, or nil if none are.
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

// byOrder is the order of files in a snapshot.
func byOrder(a, b File) int {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Location, b.Location))
}
