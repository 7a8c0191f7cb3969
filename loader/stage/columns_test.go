package stage_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// Embeddings of a fixed size become lists with the same values, in new and existing tables.
//
// spec: stage-48
func TestEmbeddingsOfAFixedSizeAreStaged(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "embedding", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	request := stagetest.Create()
	request.Buckets = 1
	const text = `[{"id": 1, "embedding": [0.5, null, -2]}, {"id": 2, "embedding": null}, {"id": 3, "embedding": [1, 2, 3]}]`
	r.Stage(t, request, schema, text)
	want := []string{"[0.5,null,-2]", array.NullValueStr, "[1,2,3]"}
	require.Equal(t, want, r.Column(t, "", "embedding"))
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, schema, text)
	require.Equal(t, append(want, want...), r.Column(t, "", "embedding"))
}

// spec: stage-34
func TestColumnsAreMatchedByName(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: stagetest.History,
		Columns: []commit.NewColumn{
			{ID: 1, Name: "id", Type: "long", Required: true},
			{ID: 2, Name: "score", Type: "double"},
			{ID: 3, Name: "text", Type: "string"},
			{ID: 4, Name: "pair", Type: `{"type":"struct","fields":[{"id":5,"name":"a","type":"int","required":false}]}`},
			{ID: 6, Name: "mark", Type: "uuid"},
		},
	}))
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	p := arrow.PrimitiveTypes
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, arrow.NewSchema([]arrow.Field{
		field("score", p.Float32), field("id", p.Int32), field("pair", arrow.StructOf(field("a", p.Int32))),
	}, nil), `[{"score": 0.5, "id": 7, "pair": {"a": 1}}, {"score": null, "id": 8, "pair": null}]`)
	require.Equal(t, []string{"7", "8"}, r.Column(t, "", "id"))
	require.Equal(t, []string{"0.5", array.NullValueStr}, r.Column(t, "", "score"))
	require.Equal(t, []string{array.NullValueStr, array.NullValueStr}, r.Column(t, "", "text"))

	for _, c := range []struct {
		text   string
		fields []arrow.Field
	}{
		{`column "id": the table requires it`, []arrow.Field{field("score", p.Float64)}},
		{`column "score": the input has type int64, the table float64`, []arrow.Field{field("id", p.Int64), field("score", p.Int64)}},
		{`the table has no column "sc"`, []arrow.Field{field("id", p.Int64), field("sc", p.Float64)}},
		{`column "id": the input has two columns of this name`, []arrow.Field{field("id", p.Int64), field("id", p.Int64)}},
		{`column "pair": the input has type struct<b: int32`, []arrow.Field{field("id", p.Int64), field("pair", arrow.StructOf(field("b", p.Int32)))}},
	} {
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History}, unread(t, arrow.NewSchema(c.fields, nil)))
		require.ErrorContains(t, err, c.text)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History}, stagetest.Rows(t, arrow.NewSchema([]arrow.Field{field("id", p.Int64)}, nil), `[{"id": null}]`))
	require.ErrorContains(t, err, "id")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// spec: stage-35
func TestColumnsAreAdded(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	more := arrow.NewSchema(append(stagetest.Schema().Fields(), arrow.Field{Name: "vector", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}), nil)
	out := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Evolve: true}, more, `[{"id": 9, "vector": [0.5]}]`)
	require.Equal(t, []string{"vector"}, out.Added)
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	f, ok := state.Table.Field("vector")
	require.True(t, ok)
	require.False(t, f.Required)
	require.Contains(t, r.Column(t, "", "vector"), "[0.5]")
	out = r.Stage(t, dataset.TableWrite{Table: stagetest.History, Evolve: true}, more, `[{"id": 9, "vector": [0.5]}]`)
	require.Empty(t, out.Added)
}

// A column must not have the name of a partition field: Iceberg's library does not load such a
// table.
//
// spec: stage-35
func TestColumnsAreNotNamedLikePartitionFields(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	of := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "id_bucket", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History, Evolve: true}, unread(t, of))
	require.ErrorContains(t, err, `"id_bucket": a partition field of the table has this name`)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// An added column of type uuid has this type in the files too, as in a new table.
//
// spec: stage-35
func TestAddedUUIDsAreUUIDsInFiles(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	of := arrow.NewSchema([]arrow.Field{{Name: "mark", Type: extensions.NewUUIDType(), Nullable: true}}, nil)
	before := r.Parquet(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Evolve: true}, of, `[{"mark": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}]`)
	for _, path := range r.Parquet(t) {
		if slices.Contains(before, path) {
			continue
		}
		reader, err := foreign.Open(t.Context(), []string{path}, foreign.Options{})
		require.NoError(t, err)
		f, ok := reader.Schema().FieldsByName("mark")
		require.True(t, ok)
		require.Equal(t, "extension<arrow.uuid>", f[0].Type.String())
		reader.Release()
	}
	require.Contains(t, r.Column(t, "", "mark"), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
}

// Absent columns with a default are refused: their values must not silently become null.
//
// spec: stage-34
func TestColumnsWithDefaultsAreRequired(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: stagetest.History, Version: 3, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}, {ID: 2, Name: "weight", Type: "int"}},
	}))
	found, err := filepath.Glob(filepath.Join(r.Dir, "ml", "history", "metadata", "*.json"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	content, err := os.ReadFile(found[0])
	require.NoError(t, err)
	const column = `"name":"weight",`
	require.Contains(t, string(content), column)
	require.NoError(t, os.WriteFile(found[0], []byte(strings.ReplaceAll(string(content), column, column+`"initial-default":3,"write-default":7,`)), 0o600))

	of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "weight", Type: arrow.PrimitiveTypes.Int32}}, nil)
	_, err = r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History}, unread(t, arrow.NewSchema(of.Fields()[:1], nil)))
	require.ErrorContains(t, err, `column "weight": the table gives rows without it a default`)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, of, `[{"id": 1, "weight": 5}]`)
	require.Equal(t, []string{"5"}, r.Column(t, "", "weight"))
}
