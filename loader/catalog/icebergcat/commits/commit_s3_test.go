package commits_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// A table on S3 is created, changed and read. An append costs three writes, of manifest, list
// and metadata, and five reads: the metadata and the list that the table had, and each written file.
//
// spec: write-25
func TestTablesOnS3AreChanged(t *testing.T) {
	gateway, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gateway.Close()) })
	require.NoError(t, gateway.MakeBucket(t.Context(), "lake"))
	var mu sync.Mutex
	requests := map[store.Operation]int{}
	files, err := s3.New(t.Context(), s3.Options{
		Settings: s3.Settings{Endpoint: gateway.URL, PathStyle: true, AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret},
		Environment: store.Environment{Observe: func(r store.Request) {
			mu.Lock()
			defer mu.Unlock()
			requests[r.Operation]++
		}},
	})
	require.NoError(t, err)
	t.Cleanup(files.Close)
	c := icebergtest.NewWriter(t).Changes(t)
	onS3 := func(o *icebergcat.Options) {
		o.Stores, o.Warehouse, o.AllowedPrefixes = icebergtest.AsS3(files), "s3://lake/warehouse", nil
	}
	tables := c.Another(t, onS3)
	require.NoError(t, tables.Create(t.Context(), newEvents(2)))
	var last commit.Committed
	file := func(name string) commit.DataFile {
		out := c.File(name, 1)
		out.Location = "s3://lake/warehouse/ml/events/data/" + name + ".parquet"
		return out
	}
	for _, name := range []string{"a", "b", "c"} {
		clear(requests)
		last, err = tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token(name), Add: []commit.DataFile{file(name)}})
		require.NoError(t, err)
	}
	require.Equal(t, map[store.Operation]int{s3.OperationRead: 5, s3.OperationWrite: 3}, requests)
	made, err := tables.Commit(t.Context(), commit.Change{
		Table: icebergtest.Events, Token: icebergtest.Token("replace"), Mode: commit.Rewrite, Base: last.Snapshot, Remove: []string{file("a").Location}, Add: []commit.DataFile{file("d")},
	})
	require.NoError(t, err)
	listed := func() []string {
		reader := c.Another(t, onS3)
		pinned, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		found, err := reader.Files(t.Context(), pinned, []int{1}, nil)
		require.NoError(t, err)
		return icebergtest.NamesOf(found)
	}
	require.Equal(t, []string{"b", "c", "d"}, listed())
	require.NoError(t, tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, Ref: commit.Main, From: made.Parent, To: made.Snapshot}))
	require.Equal(t, []string{"a", "b", "c"}, listed())
}
