package catalogtest

import (
	"context"

	"github.com/penstock/penstock/loader/catalog"
)

func (c MemoryCommit) operation() catalog.Operation {
	switch {
	case c.Operation != "":
		return c.Operation
	case len(c.Remove) == 0:
		return catalog.OpAppend
	}
	return catalog.OpOverwrite
}

func (c MemoryCommit) added() []string {
	out := make([]string, len(c.Add))
	for i, f := range c.Add {
		out[i] = f.Location
	}
	return out
}

// Appended lists the files that were appended after a snapshot. See catalog.Catalog. It follows the
// snapshots after since, oldest first, and keeps track of the files that appends added.
func (m *Memory) Appended(ctx context.Context, table *catalog.Table, since int64, columns []int, bounds []int) ([]catalog.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.pinned(table.Name, table.Pin)
	if err != nil {
		return nil, err
	}
	after, err := catalog.After(table.Name, since, table.Pin.Snapshot, t.parent)
	if err != nil {
		return nil, err
	}
	fresh := map[string]bool{}
	var newest error
	for _, id := range after {
		if err := t.snapshots[id].follow(table.Name, id, since, fresh); err != nil {
			newest = err
		}
	}
	if newest != nil {
		return nil, newest
	}
	return t.list(table, columns, bounds, func(f memoryFile) bool { return fresh[f.Location] })
}

// follow adds the files that snapshot s appended to fresh. It returns an error if s did more than
// append.
func (s memorySnapshot) follow(table string, id, since int64, fresh map[string]bool) error {
	for _, location := range s.removed {
		if fresh[location] {
			return catalog.NotAppended(table, id, since, string(s.operation), "removed files that were appended")
		}
	}
	switch s.operation {
	case catalog.OpAppend:
		for _, location := range s.added {
			fresh[location] = true
		}
		return nil
	case catalog.OpReplace:
		if len(s.added) > 0 && len(s.removed) == 0 {
			return catalog.NotAppended(table, id, since, string(s.operation), "added files and replaced none")
		}
		return nil
	case catalog.OpOverwrite, catalog.OpDelete:
		if len(s.added) > 0 {
			return catalog.NotAppended(table, id, since, string(s.operation), "added files")
		}
		return nil
	}
	return catalog.NotAppended(table, id, since, string(s.operation), "did what is not known")
}
