package stage_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// numbers returns a schema of numeric columns.
func numbers(names ...string) *arrow.Schema {
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// Columns whose names differ only in case are refused: other engines treat them as the same column,
// and cannot read the table.
//
// spec: stage-82
func TestNamesThatDifferOnlyInCaseAreRefused(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	refused := func(request dataset.TableWrite, of *arrow.Schema, texts ...string) {
		t.Helper()
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, of))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.NotEmpty(t, fault.As(err).Remedy)
		for _, text := range texts {
			require.ErrorContains(t, err, text)
		}
	}
	nested := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "place", Type: arrow.ListOf(arrow.StructOf(numbers("Lat", "lat").Fields()...)), Nullable: true},
	}, nil)
	refused(stagetest.Create(), numbers("id", "Rank", "rank"), `column "Rank": its name differs from "rank" only in case`, `column "rank": its name differs from "Rank" only in case`)
	refused(stagetest.Create(), nested, `column "place": of its field "Lat": its name differs from "lat" only in case`)

	r.Stage(t, stagetest.Create(), numbers("id", "rank"), `[{"id": 1, "rank": 2}]`)
	evolve := dataset.TableWrite{Table: stagetest.History, Evolve: true}
	refused(evolve, numbers("id", "RANK"), `column "RANK": its name differs from "rank" only in case`)
	refused(evolve, numbers("id", "a", "A"), `column "A": its name differs from "a" only in case`)
	refused(evolve, nested, `of its field "Lat"`)
	refused(dataset.TableWrite{Table: stagetest.History}, numbers("id", "RANK"), `the table has no column "RANK" (did you mean "rank"?)`)
	r.Stage(t, evolve, numbers("id", "rank", "rank2"), `[{"id": 1, "rank": 2, "rank2": 3}]`)
}

// Columns with two fields of the same path are refused, since PyIceberg and Iceberg's Java library
// do not load a table with such fields.
//
// spec: stage-98
func TestPathsThatAreNotUniqueAreRefused(t *testing.T) {
	id := arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	of := func(name string, t arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{id, {Name: name, Type: t, Nullable: true}}, nil)
	}
	with := func(s *arrow.Schema, more ...string) *arrow.Schema {
		return arrow.NewSchema(append(s.Fields(), numbers(more...).Fields()...), nil)
	}
	pair := func(names ...string) arrow.DataType { return arrow.StructOf(numbers(names...).Fields()...) }
	long := arrow.PrimitiveTypes.Int64
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), with(of("place", pair("lat"))), `[{"id": 1, "place": {"lat": 2}}]`)
	for _, c := range []struct {
		schema *arrow.Schema
		text   string
	}{
		{of("s", pair("a", "a")), `column "s": it has two fields "a"`},
		{of("s", arrow.ListOf(pair("a", "b", "a"))), `column "s": it has two fields "a"`},
		{of("s", arrow.MapOf(long, pair("a", "a"))), `column "s": it has two fields "a"`},
		{of("s", pair("a", "")), `column "s": its field 2 has no name`},
		{of("", long), `column "": column 2 of the input has no name`},
		{with(of("s", pair("a")), "s.a"), `column "s.a": other engines do not tell it or its field "s.a" apart from column "s" or a field of it`},
		{with(of("l", arrow.ListOf(long)), "l.element"), `column "l.element"`},
		{with(of("m", arrow.MapOf(long, long)), "m.key"), `column "m.key"`},
		{with(of("m", arrow.MapOf(long, long)), "m.value"), `column "m.value"`},
		{with(of("s", arrow.ListOf(pair("a"))), "s.element.a"), `column "s.element.a"`},
	} {
		for _, request := range []dataset.TableWrite{{Table: "ml.other", Key: []string{"id"}, Buckets: 4}, {Table: stagetest.History, Evolve: true}} {
			_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, c.schema))
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.NotEmpty(t, fault.As(err).Remedy)
		}
	}
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History, Evolve: true}, unread(t, numbers("id", "place.lat")))
	require.ErrorContains(t, err, `apart from column "place"`)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Evolve: true}, numbers("id", "place.lon", "s.a"), `[{"id": 1, "place.lon": 2, "s.a": 3}]`)
}
