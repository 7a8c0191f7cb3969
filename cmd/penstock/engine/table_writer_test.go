package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/batch"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
)

// staging returns an engine that may write to the namespace features. Its dataset history reads the table that the tests write,
// and its dataset last takes the last of several rows.
func staging(t *testing.T, flags map[string]string) *engine.Engine {
	t.Helper()
	dir := t.TempDir()
	_, done := newCatalog(t, dir)
	done()
	return assembled(t, loaded(t, dir, `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+dir+`", writes: {namespaces: [features]}}
datasets:
  history: {training: {table: features.history}, key: [req_id]}
  last: {training: {table: ml.impressions}, staging: [{table: features.last, key: [req_id], duplicates: last}]}
`, flags))
}

// manyRows returns a reader of batches with an id and a text. It builds each batch when the batch
// is read.
func manyRows(from, batches int) array.RecordReader {
	const rows = 4096
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "req_id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	made := 0
	return batch.FromFunc(schema, func() (arrow.RecordBatch, error) {
		if made == batches {
			return nil, nil //nolint:nilnil // the end
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		for i := range rows {
			id := from + made*rows + (i*7919)%rows
			b.Field(0).(*array.Int64Builder).Append(int64(id))                                               //nolint:forcetypeassert // the schema above
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprint(id, strings.Repeat("x", 40), id*2654435761)) //nolint:forcetypeassert // the schema above
		}
		made++
		return b.NewRecordBatch(), nil
	}, nil)
}

// Eight concurrent calls sort more rows than fit in memory. They stay within one budget and spill
// to local disk.
//
// spec: stage-72
func TestCallsAtOnceStayWithinTheBudget(t *testing.T) {
	const calls, batches = 8, 24
	e := staging(t, map[string]string{"memory": "128MiB", "spool": t.TempDir()})
	w := e.TableWriter(calls)
	first, err := w.Stage(t.Context(), dataset.TableWrite{Table: "features.history", Key: []string{"req_id"}, Buckets: 4}, access.WriteSources{}, nil, manyRows(0, 1))
	require.NoError(t, err)
	require.True(t, first.Created)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			ctx, entered := e.Budget.Enter(t.Context(), "")
			defer entered.Release()
			out, err := w.Stage(ctx, dataset.TableWrite{Table: "features.history"}, access.WriteSources{}, nil, manyRows((i+1)<<20, batches))
			require.NoError(t, err)
			require.Equal(t, int64(batches*4096), out.Rows)
		})
	}
	all.Wait()
	require.LessOrEqual(t, e.Budget.Peak(), e.Budget.Limit())
	require.Zero(t, e.Budget.Used())
	rows, err := read(t, e, "history", "")
	require.NoError(t, err)
	require.Equal(t, int64(calls*batches+1)*4096, rows)
}

// spec: stage-70
func TestServersPublishAndUndo(t *testing.T) {
	w := staging(t, nil).TableWriter(1)
	_, err := w.Stage(t.Context(), dataset.TableWrite{Table: "features.history", Key: []string{"req_id"}, Buckets: 4}, access.WriteSources{}, nil, manyRows(0, 1))
	require.NoError(t, err)
	kept, err := w.Stage(t.Context(), dataset.TableWrite{Table: "default.features.history", Branch: "try", OnlyKeysOf: "default.features.history"}, access.WriteSources{}, nil, manyRows(2048, 1))
	require.NoError(t, err)
	require.Equal(t, int64(2048), kept.Dropped)
	move, _, err := w.Publish(t.Context(), changes.Publication{Publication: tablecommit.Publication{Table: "default.features.history", Branch: "try"}})
	require.NoError(t, err)
	require.Equal(t, kept.Snapshot, move.To)
	require.NoError(t, w.Undo(t.Context(), tablecommit.Move{Table: "features.history", Ref: tablecommit.Main, From: move.From, To: move.To}))
	again, _, err := w.Publish(t.Context(), changes.Publication{Publication: tablecommit.Publication{Table: "features.history", Branch: "try"}})
	require.NoError(t, err)
	require.Equal(t, move.From, again.From)
	_, _, err = w.Publish(t.Context(), changes.Publication{Publication: tablecommit.Publication{Table: "nothing.x.history", Branch: "try"}})
	require.Error(t, err)
}

// spec: change-8
func TestOrdersOfHiddenDatasetsAreKept(t *testing.T) {
	w := staging(t, nil).TableWriter(1)
	for shown, says := range map[bool]string{true: "dataset last takes the first or last", false: "a dataset of the server takes the first or last"} {
		_, err := w.Compact(t.Context(), maintenance.Compaction{Table: "features.last", AnyOrder: true}, func(string) bool { return shown })
		require.ErrorContains(t, err, says)
	}
}
