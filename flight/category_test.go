package flight

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/fanout"
)

// TestCategoriesOverTheWire reads categories of training and staging columns, renamed, filtered, shuffled and
// in several lanes, from servers that share batches and that do not. The plan has the schema of the stream, each
// message of a batch comes with its own dictionaries, and the rows are those of the texts.
//
// spec: wire-48, wire-49, wire-50
func TestCategoriesOverTheWire(t *testing.T) {
	w := newWorld(t)
	apart := serve(t, Options{Loader: w.loader()})
	together := serve(t, Options{Loader: fanout.New(fanout.Options{Window: 1 << 20, Budget: w.budget}).Over(w.loader())})
	for _, more := range []string{
		`"batch_rows": 64`,
		`"batch_rows": 64, "wire": "auto"`,
		`"batch_rows": 64, "lanes": 4, "order": "shuffled", "shuffle_window": 100`,
		`"batch_rows": 7, "filter": "request_id < 'r2'"`,
		`"batch_rows": 5, "filter": "country IS NULL"`,
		`"batch_rows": 5, "filter": "country = 'nowhere'"`,
		`"lanes": 2, "shard": {"of": 2}`,
	} {
		columns := func(as string) string {
			return `{"dataset": "homefeed", "columns": [{"column": "request_id", "name": "r"` + as + `}, "item", {"column": "country"` + as + `}, {"column": "country", "name": "c"}], ` + more + `}`
		}
		want := apart.readAll(t, strings.ReplaceAll(columns(""), "auto", "plain")) // with auto, the texts would be indexed
		for _, s := range []*served{apart, together, together} {
			query := columns(`, "as": "category"`)
			answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
			require.NoError(t, err)
			schema, err := arrowflight.DeserializeSchema(answer.GetSchema(), memory.DefaultAllocator)
			require.NoError(t, err)
			got := s.readAll(t, query)
			require.Len(t, got, len(want))
			for i, g := range got {
				require.True(t, schema.Equal(g.schema), "%s\n%s", schema, g.schema)
				for k, f := range g.schema.Fields() {
					require.Equal(t, want[i].schema.Field(k).Name, f.Name)
					require.Equal(t, want[i].schema.Field(k).Nullable, f.Nullable)
					if k == 0 || k == 2 {
						require.True(t, arrow.TypeEqual(batch.Coded(arrow.BinaryTypes.String), f.Type), more)
					} else {
						require.Equal(t, want[i].schema.Field(k).Type, f.Type)
					}
				}
				require.Equal(t, want[i].rows, g.rows, more)
				require.Equal(t, want[i].sizes, g.sizes, more)
				require.Equal(t, want[i].cursors, g.cursors, more)
			}
		}
	}
	code, d := apart.flightInfoFailure(t, flighttest.Command(`{"dataset": "homefeed", "wire": "indexed", "columns": [{"column": "country", "as": "category"}]}`))
	require.Equal(t, codes.InvalidArgument, code)
	require.Equal(t, "wire", d.Faults[0].Field)
	require.Contains(t, d.Faults[0].Message, `indexed does not send column "country" once in each row`)
	require.Zero(t, w.budget.Used())
}
