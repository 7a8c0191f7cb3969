package catalogtest_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
)

func TestMemoryConforms(t *testing.T) {
	catalogtest.Run(t, catalogtest.MemoryRig)
}

func TestMemoryIsPredictable(t *testing.T) {
	m := catalogtest.NewMemory()
	require.NoError(t, m.AddTable("ml.a", catalogtest.Fields(), nil))
	require.NoError(t, m.AddTable("ml.b", catalogtest.Fields(), nil))
	id, err := m.Append("ml.b", catalog.File{Location: "x", Rows: 1})
	require.NoError(t, err)
	require.Equal(t, int64(1), id)
	table, err := m.Table(t.Context(), "ml.b", dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, dataset.TablePin{UUID: "00000000-0000-4000-8000-000000000002", Snapshot: 1}, table.Pin)
}

func TestMemoryRefusesMisuse(t *testing.T) {
	m := catalogtest.NewMemory()
	require.NoError(t, m.AddTable("ml.a", catalogtest.Fields(), map[int]catalog.Spec{0: catalogtest.Spec()}))
	file := catalog.File{Location: "x", Partition: []any{int64(1), nil, "fr"}}
	id, err := m.Append("ml.a", file)
	require.NoError(t, err)
	require.NoError(t, m.Tag("ml.a", "v1", id))
	untyped, short, foreign := file, file, file
	untyped.Partition = []any{1, nil, "fr"}
	short.Partition = nil
	foreign.Spec = 7
	for name, err := range map[string]error{
		"a table twice":            m.AddTable("ml.a", nil, nil),
		"a name without namespace": m.AddTable("a", nil, nil),
		"an untyped value":         second(m.Append("ml.a", untyped)),
		"too few values":           second(m.Append("ml.a", short)),
		"a foreign spec":           second(m.Append("ml.a", foreign)),
		"a commit to a tag":        second(m.Commit("ml.a", catalogtest.MemoryCommit{Branch: "v1"})),
		"an unknown file":          second(m.Commit("ml.a", catalogtest.MemoryCommit{Remove: []string{"y"}})),
		"a snapshot in use":        m.Expire("ml.a", id),
	} {
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
	for name, err := range map[string]error{
		"drop":   m.Drop("ml.b"),
		"append": second(m.Append("ml.b")),
		"alter":  second(m.Alter("ml.b", nil)),
		"branch": m.Branch("ml.a", "b", 9),
	} {
		require.Equal(t, fault.NotFound, fault.KindOf(err), name)
	}
}

func second[T any](_ T, err error) error { return err }

func TestMemoryNestedColumns(t *testing.T) {
	m := catalogtest.NewMemory()
	key := catalog.Field{ID: 3, Name: "user.id", Type: arrow.PrimitiveTypes.Int64}
	dotted := catalog.Field{ID: 4, Name: "a.b", Type: arrow.PrimitiveTypes.Int64}
	user := catalog.Field{ID: 2, Name: "user", Type: arrow.StructOf(arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64})}
	spec := catalog.Spec{{ID: 1000, Source: 3, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}}}
	require.NoError(t, m.AddTable("ml.events", []catalog.Field{user, key, dotted}, map[int]catalog.Spec{0: spec}))
	_, err := m.Append("ml.events", catalog.File{Location: "a", Rows: 1, Partition: []any{int64(1)}})
	require.NoError(t, err)
	table, err := m.Table(t.Context(), "ml.events", dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, []catalog.Field{user, dotted}, table.Fields)
	require.Equal(t, []catalog.Field{key}, table.Nested)
	got, ok := table.Field("user.id")
	require.True(t, ok)
	require.Equal(t, key, got)
	files, err := m.Files(t.Context(), table, []int{2, 3}, nil)
	require.NoError(t, err)
	require.Len(t, files, 1)
	_, err = m.Files(t.Context(), table, []int{99}, nil)
	require.ErrorContains(t, err, "no column with field id 99")
}
