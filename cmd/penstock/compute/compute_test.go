package compute

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// rows returns a reader of batches in JSON, with the columns clicks and views.
func rows(t *testing.T, batches ...string) array.RecordReader {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "clicks", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "views", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	var all []arrow.RecordBatch
	for _, text := range batches {
		b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(text))
		require.NoError(t, err)
		all = append(all, b)
	}
	out, err := array.NewRecordReader(schema, all)
	require.NoError(t, err)
	return out
}

// spec: stage-188
func TestComputedColumns(t *testing.T) {
	b := budget.New(1 << 20)
	for _, c := range []struct {
		compute, result []string
		want            []string
	}{
		{[]string{"ctr = clicks / nullif(views, 0)", "twice=ctr*2"}, nil, []string{
			`[{"clicks":1,"views":4,"ctr":0.25,"twice":0.5},{"clicks":3,"views":0,"ctr":null,"twice":null}]`, `[{"clicks":null,"views":2,"ctr":null,"twice":null}]`,
		}},
		{[]string{"some = CASE WHEN clicks = 1 THEN true ELSE false END"}, []string{"some", "views"}, []string{`[{"some":true,"views":4},{"some":false,"views":0}]`, `[{"some":false,"views":2}]`}},
	} {
		computed, err := Parse(c.compute)
		require.NoError(t, err)
		got, err := Rows(rows(t, `[{"clicks": 1, "views": 4}, {"clicks": 3, "views": 0}]`, `[{"clicks": null, "views": 2}]`), computed, c.result, b)
		require.NoError(t, err)
		for _, want := range c.want {
			require.True(t, got.Next(), got.Err())
			text, err := got.RecordBatch().MarshalJSON()
			require.NoError(t, err)
			require.JSONEq(t, want, string(text))
			require.True(t, got.RecordBatch().Schema().Equal(got.Schema()))
		}
		require.False(t, got.Next())
		require.NoError(t, got.Err())
		got.Release()
		require.Zero(t, b.Used())
	}
	computed, err := Parse([]string{"ctr = clicks / nullif(views, 0)", "twice = ctr * price"})
	require.NoError(t, err)
	require.Equal(t, []string{"id", "clicks", "views", "price"}, Reads(computed, []string{"twice", "id"}))
}

// spec: stage-188
func TestWrongComputedColumns(t *testing.T) {
	for text, want := range map[string]string{
		"clicks / views":          `"clicks / views" does not begin with the name of a column`,
		"= clicks":                "does not begin with the name",
		"x = clicks +":            "compute column x",
		"x = clics + 1":           "compute column x",
		"views = clicks + 1":      "the rows have a column views already",
		"x = clicks + 1; x=views": "column x is computed twice",
	} {
		computed, err := Parse(strings.Split(text, ";"))
		if err == nil {
			_, err = Rows(rows(t), computed, nil, nil)
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", text, err)
		require.ErrorContains(t, err, want)
	}
	computed, err := Parse([]string{"x = clicks + 1"})
	require.NoError(t, err)
	_, err = Rows(rows(t), computed, []string{"y"}, nil)
	require.ErrorContains(t, err, "no column y")

	got, err := Rows(rows(t, `[{"clicks": 9223372036854775807, "views": 1}]`), computed, nil, nil)
	require.NoError(t, err)
	defer got.Release()
	require.False(t, got.Next())
	require.Equal(t, fault.Invalid, fault.KindOf(got.Err()), got.Err())
	require.ErrorContains(t, got.Err(), "compute column x")

	small, err := Rows(rows(t, `[{"clicks": 1, "views": 1}]`), computed, nil, budget.New(1))
	require.NoError(t, err)
	defer small.Release()
	require.False(t, small.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(small.Err()), small.Err())
}

// Files have types that tables do not have, such as the categories of pandas.
func TestColumnsAreComputedFromTypesOfFiles(t *testing.T) {
	b := budget.New(1 << 20)
	texts := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "country", Type: texts, Nullable: true}, {Name: "items", Type: arrow.LargeListOf(arrow.PrimitiveTypes.Int64), Nullable: true}}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(
		`[{"country": "de", "items": [1, 2]}, {"country": null, "items": null}, {"country": "de", "items": []}]`))
	require.NoError(t, err)
	read, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
	require.NoError(t, err)
	computed, err := Parse([]string{"upper = upper(country)", "n = length(items)"})
	require.NoError(t, err)
	got, err := Rows(read, computed, []string{"upper", "n", "country"}, b)
	require.NoError(t, err)
	defer got.Release()
	require.True(t, got.Next(), got.Err())
	text, err := got.RecordBatch().MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, `[{"upper":"DE","n":2,"country":"de"},{"upper":null,"n":null,"country":null},{"upper":"DE","n":0,"country":"de"}]`, string(text))
	require.False(t, got.Next())
	require.NoError(t, got.Err())
}
