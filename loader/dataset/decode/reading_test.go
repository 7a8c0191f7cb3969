package decode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset/decode"
)

// TestFieldsThatCannotBeCombined checks that fields that cannot be combined are reported by
// name.
//
// spec: endpoint-2, endpoint-11, endpoint-16
func TestFieldsThatCannotBeCombined(t *testing.T) {
	t.Parallel()
	four := `"cursor":` + firstText + `,`
	for text, want := range map[string]string{
		`"endpoints":"splits","shard":{"of":2}`:            "endpoints: splits requires one shard, but the query has 2; leave shard out, or use endpoints: shards",
		`"endpoints":"splits","lanes":2`:                   "endpoints: splits requires a plan with one lane, but the query has 2; leave lanes out, or use endpoints: shards",
		four + `"endpoints":"splits","shard":{"of":1}`:     "endpoints: splits requires a plan with one lane, but that of the cursor has 4; use endpoints: shards",
		`"endpoints":"splits","tail":"drop"`:               "endpoints: splits returns every row of a split, but tail: drop drops rows; use tail: keep, or endpoints: shards",
		`"endpoints":"splits","limit":3`:                   "limit: the number of rows in the splits before an endpoint is unknown; leave limit out, or use endpoints: shards",
		`"endpoints":"splits","every":{"step":0,"of":2}`:   "endpoints: every divides one stream among DataLoader workers, but each endpoint of splits is a stream of its own; leave every out and assign the endpoints to workers, or use endpoints: shards",
		`"limit":3,"every":{"step":0,"of":2}`:              "limit: it counts the rows of all steps, but every selects only some of them; leave limit or every out",
		`"endpoints":"split"`:                              `endpoints: unknown value "split"; known: shards, splits (did you mean "splits"?)`,
		`"limit":3,"shard":{"of":2}`:                       "limit: it counts the rows of one shard, but the query has 2 shards; leave limit out, or read as one shard",
		four + `"limit":3`:                                 "limit: it counts the rows of one shard, but the query has 2 shards; leave limit out, or read as one shard",
		`"limit":3,"tail":"drop"`:                          "limit: it can end within a step, whose rows tail: drop would drop; leave limit out, or use tail: keep",
		`"limit":0`:                                        "limit: must be at least 1, not 0",
		`"global_batch_rows":8,"batch_rows":8`:             "global_batch_rows: cannot be combined with batch_rows; set one of them",
		`"global_batch_rows":10,"lanes":4`:                 "global_batch_rows: 10 rows per step cannot be divided among the 4 lanes; use a multiple of 4, such as 8 or 12",
		`"global_batch_rows":3,"shard":{"of":4}`:           "global_batch_rows: 3 rows per step cannot be divided among the 4 lanes; use a multiple of 4, such as 4",
		`"global_batch_rows":16777215,"lanes":4096`:        "global_batch_rows: 16777215 rows per step cannot be divided among the 4096 lanes; use a multiple of 4096, such as 16773120 or 16777216",
		`"global_batch_rows":16777216,"lanes":3`:           "global_batch_rows: 16777216 rows per step cannot be divided among the 3 lanes; use a multiple of 3, such as 16777215",
		`"global_batch_rows":16777217`:                     "global_batch_rows: must be at most 16777216, not 16777217",
		four + `"global_batch_rows":6`:                     "global_batch_rows: 6 rows per step cannot be divided among the 4 lanes; use a multiple of 4, such as 4 or 8",
		`"global_batch_rows":6,"lanes":4,"shard":{"of":3}`: "shard.of: 3 shards do not divide 4 lanes; set lanes to a multiple of 3, such as 6",
	} {
		_, err := decode.Query([]byte(`{"dataset":"d",` + text + `}`))
		require.EqualError(t, err, "read the query: "+want, text)
	}
}
