package dataset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// TestCheck checks that Check reports fields that cannot be combined, of queries that
// were built in Go.
//
// spec: endpoint-2, endpoint-11, endpoint-16
func TestCheck(t *testing.T) {
	t.Parallel()
	for field, q := range map[string]dataset.Query{
		"limit":             {Reading: dataset.Reading{Limit: 3, Shard: dataset.Shard{Index: dataset.AllShards, Of: 2}}},
		"endpoints":         {Rows: dataset.Rows{Lanes: 2}, Reading: dataset.Reading{Endpoints: dataset.EndpointsSplits}},
		"global_batch_rows": {Reading: dataset.Reading{GlobalBatchRows: -1}},
	} {
		err := q.Defaults().Check()
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Equal(t, field, fault.As(err).Faults[0].Field)
	}
	require.Error(t, dataset.Query{Reading: dataset.Reading{Limit: -1}}.Defaults().Check())
	require.NoError(t, dataset.Query{Rows: dataset.Rows{Lanes: 4}, Reading: dataset.Reading{Limit: 1, GlobalBatchRows: 8}}.Defaults().Check())
}
