package stage_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/stage"
)

// numbers is a schema of numbers.
func numbers(names ...string) *arrow.Schema {
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// Other engines take columns for one whose names differ only in case, and cannot read such a table.
//
// spec: stage-82
func TestNamesThatDifferOnlyInCaseAreRefused(t *testing.T) {
	r := newRig(t, unlimited, nil)
	refused := func(request stage.TableWrite, of *arrow.Schema, texts ...string) {
		t.Helper()
		_, err := r.stager.Stage(t.Context(), request, unread(t, of))
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
	refused(create(), numbers("id", "Rank", "rank"), `column "Rank": its name differs from that of "rank" only in case`, `column "rank": its name differs from that of "Rank" only in case`)
	refused(create(), nested, `column "place": of its field "Lat": its name differs from that of "lat" only in case`)

	r.stage(t, create(), numbers("id", "rank"), `[{"id": 1, "rank": 2}]`)
	evolve := stage.TableWrite{Table: history, Evolve: true}
	refused(evolve, numbers("id", "RANK"), `column "RANK": its name differs from that of "rank" only in case`)
	refused(evolve, numbers("id", "a", "A"), `column "A": its name differs from that of "a" only in case`)
	refused(evolve, nested, `of its field "Lat"`)
	refused(stage.TableWrite{Table: history}, numbers("id", "RANK"), `the table has no column "RANK" (did you mean "rank"?)`)
	r.stage(t, evolve, numbers("id", "rank", "rank2"), `[{"id": 1, "rank": 2, "rank2": 3}]`)
}
