package catalogtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// mainBranch is the branch that the zero Ref names.
const mainBranch = "main"

// Memory is a catalog whose tables and files are values: locations are any
// strings, and nothing is read or written.
//
// Its ids are predictable: the first table's uuid ends in 1, the uuid of the next table in 2, and
// so on. The snapshots of a table have the ids 1, 2, 3 and so on, and their sequence numbers are
// the same. Methods that change tables return Invalid or NotFound for arguments that do not fit.
type Memory struct {
	mu     sync.RWMutex
	tables map[string]*memoryTable
	made   int // number of tables that were ever made
}

type memoryTable struct {
	uuid      string
	schemas   [][]catalog.Field // by schema id; the last one is current
	specs     map[int]catalog.Spec
	snapshots map[int64]memorySnapshot
	refs      map[string]memoryRef
	last      int64 // the last snapshot id, which is also the last sequence number

	unsequenced bool // whether new files have no sequence numbers, as in format version 1
}

type memorySnapshot struct {
	parent         int64 // 0: none
	schema         int
	files          []memoryFile // by (sequence, location)
	operation      catalog.Operation
	added, removed []string // locations
}

// memoryFile is a file and the schema that was current when it was added.
type memoryFile struct {
	catalog.File
	schema int
}

type memoryRef struct {
	snapshot int64
	tag      bool
}

// MemoryCommit is a change of a table's files.
type MemoryCommit struct {
	Branch string         // "" is main
	Remove []string       // locations of files of the branch
	Add    []catalog.File // a Sequence of 0 becomes the commit's own
	// Operation is the operation of the snapshot; "" is append if nothing is removed, else
	// overwrite.
	Operation catalog.Operation
}

// NewMemory makes a catalog without tables.
func NewMemory() *Memory {
	return &Memory{tables: map[string]*memoryTable{}}
}

// AddTable makes an empty table, whose fields are schema 0. If specs is nil, the table has spec 0
// without fields. A field whose name is a path into a struct column, such as user.id, is a nested
// column. The table keeps the values that it is given and does not copy them deeply.
func (m *Memory) AddTable(name string, fields []catalog.Field, specs map[int]catalog.Spec) error {
	if _, err := catalog.Parts(name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.tables[name]; ok {
		return fault.New(fault.Invalid, "table %s exists", name).In(name, "")
	}
	specs = maps.Clone(specs)
	if specs == nil {
		specs = map[int]catalog.Spec{0: nil}
	}
	m.made++
	m.tables[name] = &memoryTable{
		uuid:      fmt.Sprintf("00000000-0000-4000-8000-%012d", m.made),
		schemas:   [][]catalog.Field{slices.Clone(fields)},
		specs:     specs,
		snapshots: map[int64]memorySnapshot{},
		refs:      map[string]memoryRef{},
	}
	return nil
}

// Unsequenced sets whether files that are added to a table from now on are without sequence
// numbers, as in format version 1.
func (m *Memory) Unsequenced(name string, without bool) error {
	return m.change(name, func(t *memoryTable) error {
		t.unsequenced = without
		return nil
	})
}

// Drop removes a table. If a table of the same name is made later, it has another uuid.
func (m *Memory) Drop(name string) error {
	return m.change(name, func(*memoryTable) error {
		delete(m.tables, name)
		return nil
	})
}

// Append adds files to main and returns the new snapshot's id.
func (m *Memory) Append(name string, files ...catalog.File) (int64, error) {
	return m.Commit(name, MemoryCommit{Add: files})
}

// Commit makes a snapshot of a branch and returns its id. A branch that does
// not exist yet begins empty.
func (m *Memory) Commit(name string, c MemoryCommit) (int64, error) {
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
			if t.unsequenced {
				f.Sequence, f.Snapshot = 0, t.last+1
			} else {
				f.Sequence = cmp.Or(f.Sequence, t.last+1)
			}
			files = append(files, memoryFile{File: f, schema: t.current()})
		}
		t.last++
		id = t.last
		t.snapshots[id] = memorySnapshot{
			parent: ref.snapshot, schema: t.current(), files: files, operation: c.operation(), added: c.added(), removed: c.Remove,
		}
		t.refs[branch] = memoryRef{snapshot: id}
		return nil
	})
	return id, err
}

// Branch sets a branch to a snapshot.
func (m *Memory) Branch(name, branch string, snapshot int64) error {
	return m.setRef(name, branch, memoryRef{snapshot: snapshot})
}

// Tag sets a tag to a snapshot.
func (m *Memory) Tag(name, tag string, snapshot int64) error {
	return m.setRef(name, tag, memoryRef{snapshot: snapshot, tag: true})
}

func (m *Memory) setRef(name, ref string, to memoryRef) error {
	return m.change(name, func(t *memoryTable) error {
		if _, ok := t.snapshots[to.snapshot]; !ok {
			return catalog.UnknownSnapshot(name, to.snapshot, t.snapshotTimes())
		}
		t.refs[ref] = to
		return nil
	})
}

// Alter gives a table a new current schema and returns its id.
func (m *Memory) Alter(name string, fields []catalog.Field) (int, error) {
	var id int
	err := m.change(name, func(t *memoryTable) error {
		t.schemas = append(t.schemas, slices.Clone(fields))
		id = t.current()
		return nil
	})
	return id, err
}

// Expire removes a snapshot that no branch or tag is at.
func (m *Memory) Expire(name string, snapshot int64) error {
	return m.change(name, func(t *memoryTable) error {
		for ref, r := range t.refs {
			if r.snapshot == snapshot {
				return fault.New(fault.Invalid, "%s of table %s points to snapshot %d", ref, name, snapshot).In(name, "")
			}
		}
		delete(t.snapshots, snapshot)
		return nil
	})
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

// check returns an error for a file whose spec the table does not have, or whose partition values
// do not fit the spec or the types that catalog.File allows.
func (t *memoryTable) check(name string, f catalog.File) error {
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
