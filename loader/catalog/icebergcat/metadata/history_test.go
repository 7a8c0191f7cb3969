package metadata_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/tablestore"
)

// returned is a catalog that returns the same metadata for each table.
type returned string

func (r returned) Locate(context.Context, locator.Table) (locator.Located, error) {
	return locator.Located{Location: "file:///t/metadata/00001-a.metadata.json", Text: []byte(r)}, nil
}

func (returned) Close() {}

// withSnapshots returns the metadata of a table with a number of snapshots.
func withSnapshots(n int) returned {
	var all, log []string
	for i := 1; i <= n; i++ {
		all = append(all, fmt.Sprintf(`{"snapshot-id": %d, "parent-snapshot-id": %d, "sequence-number": %d, "timestamp-ms": %d, "manifest-list": "/t/%d.avro",
			"schema-id": 0, "summary": {"operation": "append", "added-records": "3", "total-records": "9", "engine-name": "spark"}}`, i, i-1, i, i, i))
		log = append(log, fmt.Sprintf(`{"snapshot-id": %d, "timestamp-ms": %d}`, i, i))
	}
	return returned(fmt.Sprintf(`{"format-version": 2, "table-uuid": "0e0ad5ec-8d2f-4d4b-9b4e-6a5a4d0f7f10", "location": "/t", "last-updated-ms": %d, "last-column-id": 1,
		"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]}], "current-schema-id": 0,
		"partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0, "last-partition-id": 999,
		"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0, "last-sequence-number": %d, "properties": {},
		"snapshots": [%s], "snapshot-log": [%s], "current-snapshot-id": %d, "refs": {"main": {"snapshot-id": %d, "type": "branch"}}}`,
		n, n, strings.Join(all, ","), strings.Join(log, ","), n, n))
}

// The snapshots of a table are read once each, however many there are.
//
// spec: history-4
func TestHistoryOfManySnapshots(t *testing.T) {
	allocations := func(n int) float64 {
		s := &metadata.Source{Locator: withSnapshots(n), Files: tablestore.New(tablestore.Options{})}
		return testing.AllocsPerRun(1, func() {
			held, err := budget.New(1<<30).Reserve("a history", 0)
			require.NoError(t, err)
			defer held.Release()
			got, err := s.History(t.Context(), "ml.t", held)
			require.NoError(t, err)
			require.Len(t, got.Snapshots, n)
			require.Len(t, got.Moves, n)
			require.Equal(t, "spark", got.Snapshots[n-1].Summary["engine-name"])
			require.Equal(t, int64(n), got.Moved.UnixMilli())
		})
	}
	require.Less(t, allocations(400), 6*allocations(100))
}
