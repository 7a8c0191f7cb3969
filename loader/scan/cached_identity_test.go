package scan_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// TestCachedColumnsDependOnTypes: a column whose type was promoted is decoded again.
//
// spec: cache-1
func TestCachedColumnsDependOnTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.table.Specs = map[int]catalog.Spec{0: nil}
	r.addFile(nil, `[{"id":5},{"id":6}]`, withID(1, "id", arrow.PrimitiveTypes.Int32))
	s, _ := r.caching(t, scan.Options{}, 1<<30, nil)
	for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32} {
		r.table.Fields[0] = catalog.Field{ID: 1, Name: "id", Type: kind}
		source := r.repeated()
		source.Checked = nil
		rdr, err := s.Open(t.Context(), source, r.columns("id"))
		require.NoError(t, err)
		require.True(t, rdr.Next())
		require.Equal(t, kind, rdr.RecordBatch().Column(0).DataType())
		require.Equal(t, []string{"5", "6"}, texts(rdr.RecordBatch()))
		rdr.Release()
	}
}

// TestCachedColumnsDependOnManifests: row ids are those of the manifest, and are not cached.
//
// spec: cache-1
func TestCachedColumnsDependOnManifests(t *testing.T) {
	t.Parallel()
	r := lineage(t)
	s, _ := r.caching(t, scan.Options{}, 1<<30, nil)
	for _, first := range []int64{0, 500} {
		r.list[1].FirstRow = &first
		source := r.repeated()
		source.Checked, source.Planned, source.Files = nil, []int{1, 2147483539, 2147483540}, source.Files[1:2]
		got := r.read(s, source, append(r.columns("id"), r.table.Lineage[0]))
		require.NoError(t, got.err)
		require.Equal(t, []string{"5 | 3", fmt.Sprintf("6 | %d", first+1), fmt.Sprintf("7 | %d", first+2)}, got.lines)
	}
}

// TestCachedColumnsDependOnNames: a file without field ids has the columns that the mapping says.
//
// spec: cache-1
func TestCachedColumnsDependOnNames(t *testing.T) {
	t.Parallel()
	r := migrated(t)
	r.addFile("x", `[{"id":1,"ID":2}]`, nullable("id", arrow.PrimitiveTypes.Int64), nullable("ID", arrow.PrimitiveTypes.Int64))
	s, _ := r.caching(t, scan.Options{}, 1<<30, nil)
	for i, name := range []string{"id", "ID"} {
		r.table.Mapping = catalog.NameMapping{{ID: 1, Names: []string{name}}}
		r.table.Pin.Mapping = name
		source := r.repeated()
		source.Checked = nil
		got := r.read(s, source, r.columns("id"))
		require.NoError(t, got.err)
		require.Equal(t, []string{strconv.Itoa(i + 1)}, got.lines)
	}
}

// TestCachedColumnsDependOnFiles: two files of one size and form have their own columns.
//
// spec: cache-1
func TestCachedColumnsDependOnFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.table.Specs = map[int]catalog.Spec{0: nil}
	r.addFile(nil, `[{"id":5},{"id":6}]`, withID(1, "id", arrow.PrimitiveTypes.Int64))
	r.addFile(nil, `[{"id":7},{"id":8}]`, withID(1, "id", arrow.PrimitiveTypes.Int64))
	require.Equal(t, r.list[0].Bytes, r.list[1].Bytes)
	s, c := r.caching(t, scan.Options{}, 1<<30, nil)
	source := r.repeated()
	source.Checked = nil
	for range 2 {
		got := r.read(s, source, r.columns("id"))
		require.NoError(t, got.err)
		require.Equal(t, []string{"5", "6", "7", "8"}, got.lines)
	}
	require.EqualValues(t, 2, c.Stats().Hits)
}

// TestColumnsOfTablesWithoutUUIDAreNotCached: metadata of format version 1 may have none. Then a file of
// another table could have the same name and size.
//
// spec: cache-1
func TestColumnsOfTablesWithoutUUIDAreNotCached(t *testing.T) {
	t.Parallel()
	chunks := chunkcache.New(chunkcache.Options{Budget: budget.New(1 << 40), Clock: time.Now, Limit: 1 << 30})
	for _, id := range []string{"5", "7"} {
		r := newRig(t)
		r.table.Pin.UUID = "00000000-0000-0000-0000-000000000000"
		r.table.Specs = map[int]catalog.Spec{0: nil}
		r.addFile(nil, `[{"id":`+id+`}]`, withID(1, "id", arrow.PrimitiveTypes.Int64))
		s := r.scanner(scan.Options{Chunks: chunks})
		source := r.repeated()
		source.Checked = nil
		got := r.read(s, source, r.columns("id"))
		require.NoError(t, got.err)
		require.Equal(t, []string{id}, got.lines)
	}
	require.Zero(t, chunks.Stats().Units)
}
