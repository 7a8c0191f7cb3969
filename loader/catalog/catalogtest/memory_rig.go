package catalogtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
)

// MemoryRig returns the Rig of a Memory without tables.
func MemoryRig(*testing.T) Rig {
	m := NewMemory()
	return Rig{
		Catalog: m,
		Create: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, m.AddTable(table, Fields(), map[int]catalog.Spec{0: Spec()}))
		},
		Commit: func(t *testing.T, table string, c Commit) int64 {
			t.Helper()
			commit := MemoryCommit{Branch: c.Branch}
			if c.Replace {
				commit.Operation = catalog.OpReplace
			}
			for _, f := range c.Remove {
				commit.Remove = append(commit.Remove, f.Location)
			}
			for _, f := range c.Add {
				commit.Add = append(commit.Add, f.Expect(0, allColumns()...))
			}
			id, err := m.Commit(table, commit)
			require.NoError(t, err)
			return id
		},
		SetRef: func(t *testing.T, table string, r Ref) {
			t.Helper()
			set := m.Branch
			if r.Tag {
				set = m.Tag
			}
			require.NoError(t, set(table, r.Name, r.Snapshot))
		},
		Alter: func(t *testing.T, table string, fields []catalog.Field) {
			t.Helper()
			_, err := m.Alter(table, fields)
			require.NoError(t, err)
		},
		Expire: func(t *testing.T, table string, snapshot int64) {
			t.Helper()
			require.NoError(t, m.Expire(table, snapshot))
		},
		Unsequenced: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, m.AddTable(table, Fields(), map[int]catalog.Spec{0: Spec()}))
			require.NoError(t, m.Unsequenced(table, true))
		},
		Sequenced: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, m.Unsequenced(table, false))
		},
		Drop: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, m.Drop(table))
		},
	}
}

// allColumns returns the field ids of Fields.
func allColumns() []int {
	return []int{
		IDColumn, DayColumn, CountryColumn,
		ScoreColumn, NoteColumn,
	}
}
