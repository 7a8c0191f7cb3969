package scan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// nestedKeys is a rig whose key, field id 11, lies two structs deep in column
// user, id 10; the table is bucketed on it, and has files with and without
// null structs.
func nestedKeys(t testing.TB) *rig {
	r := newRig(t)
	in := arrow.StructOf(arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true})
	user := arrow.StructOf(arrow.Field{Name: "in", Type: in, Nullable: true})
	key := catalog.Field{ID: 12, Name: "user.in.key", Type: arrow.PrimitiveTypes.Int64}
	r.table.Fields = []catalog.Field{{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64, Required: true}, {ID: 10, Name: "user", Type: user}}
	r.table.Nested = []catalog.Field{key}
	r.table.Specs = map[int]catalog.Spec{0: {{ID: 1000, Source: 12, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: buckets}}}}
	return r
}

// addNested adds a file of keys, which it returns as text; -1 is a null struct
// in user, -2 a user that is null.
func (r *rig) addNested(b int32, keys ...int64) {
	r.t.Helper()
	var rows []string
	for _, key := range keys {
		user := fmt.Sprintf(`{"in":{"key":%d,"name":"n%d"}}`, key, key)
		switch key {
		case -1:
			user = `{"in":null}`
		case -2:
			user = "null"
		}
		rows = append(rows, fmt.Sprintf(`{"id":%d,"user":%s}`, r.next, user))
		r.next++
	}
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, r.table.Schema(), strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(r.t, err)
	// Nested ids follow the largest: in is 11, its key 12.
	r.add(batch, b, parquettest.Options{FieldIDs: []int{1, 10}, RowGroupRows: 2})
}

func longsOf(b int32, n int) []int64 {
	var out []int64
	for v := int64(1); len(out) < n; v++ {
		if buckettest.Of(bucket.HashInt64(v), buckets) == int(b) {
			out = append(out, v)
		}
	}
	return out
}

// spec: resolve-8, join-85
func TestKeysInsideStructs(t *testing.T) {
	t.Parallel()
	r := nestedKeys(t)
	three := longsOf(3, 5)
	r.addNested(3, three...)
	r.addNested(bucket.Null, -1, -2, -1)
	source := r.source()
	source.Checked = r.table.Nested
	columns := r.columns("user.in.key", "id")
	want := []string{}
	for i, key := range three {
		want = append(want, fmt.Sprintf("%d | %d", key, i))
	}
	want = append(want, "(null) | 5", "(null) | 6", "(null) | 7")
	for _, opts := range []scan.Options{{}, {BatchRows: 1}, {BatchRows: 3, Ahead: scan.NoAhead}} {
		got := r.read(r.scanner(opts), source, columns)
		require.NoError(t, got.err)
		require.Equal(t, want, got.lines)
		got = r.read(r.scanner(opts), source, r.columns("id"))
		require.NoError(t, got.err)
		require.Len(t, got.lines, 8, "checked though not asked for")
	}
	both := r.read(r.scanner(scan.Options{}), source, r.columns("user", "user.in.key"))
	require.NoError(t, both.err)
	require.Contains(t, both.lines[0], fmt.Sprintf(`"name":"n%d"`, three[0]))
	require.Contains(t, both.lines[0], fmt.Sprintf(" | %d", three[0]))

	source.Sample = &plan.Sample{From: 0.25, To: 0, Columns: []string{"user.in.key"}, Rate: 1}
	got := r.read(r.scanner(scan.Options{}), source, columns)
	require.NoError(t, got.err)
	require.Equal(t, want[:5], got.lines, "bucket 3 of 4 is the last quarter of hash space, a null its beginning")
	source.Sample = nil

	r.addNested(2, three[0])
	source = r.source()
	source.Checked = r.table.Nested
	got = r.read(r.scanner(scan.Options{}), source, columns)
	require.Equal(t, fault.Corrupt, fault.KindOf(got.err))
	require.ErrorContains(t, got.err, "row 0 has user.in.key = ")
	require.ErrorContains(t, got.err, "belongs to bucket 3 of 4; the manifest says that the file is of bucket 2")
}

func TestKeysInsideStructsThatFilesLack(t *testing.T) {
	t.Parallel()
	r := nestedKeys(t)
	r.addNested(bucket.Null, -1)
	// A file from before the column, and one whose structs have no field ids.
	ids, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{r.table.Fields[0].Arrow()}, nil), strings.NewReader(`[{"id":1}]`))
	require.NoError(t, err)
	r.add(ids, bucket.Null, parquettest.Options{FieldIDs: []int{1}})
	source := r.source()
	source.Checked = r.table.Nested
	got := r.read(r.scanner(scan.Options{}), source, r.columns("user.in.key", "id"))
	require.NoError(t, got.err)
	require.Equal(t, []string{"(null) | 0", "(null) | 1"}, got.lines)

	numbered := r.table.Schema().Fields()
	for i, id := range []string{"1", "10"} {
		numbered[i].Metadata = arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{id})
	}
	rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(numbered, nil), strings.NewReader(`[{"id":2,"user":{"in":{"key":5}}}]`))
	require.NoError(t, err)
	r.addAsIs(rows, bucket.Null)
	source = r.source()
	got = r.read(r.scanner(scan.Options{}), source, r.columns("user.in.key", "id"))
	require.Equal(t, fault.Invalid, fault.KindOf(got.err))
	require.ErrorContains(t, got.err, "without field ids inside structs")
}
