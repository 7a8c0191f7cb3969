package scan_test

import (
	"fmt"
	"strconv"
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

// spec: join-80, join-81
func TestSampleIsTheSameHoweverFilesAreRead(t *testing.T) {
	t.Parallel()
	r := small(t)
	columns := r.columns("tags")
	for name, s := range map[string]*plan.Sample{
		"hash":     {From: 0.25, To: 0.5, Columns: []string{"id"}, Rate: 1},
		"wrapped":  {From: 0.9, To: 0.3, Columns: []string{"id", "key"}, Rate: 1},
		"lots":     {Rate: 0.3, Where: r.filter("flag")},
		"all lots": {Rate: 0.6},
		"both":     {From: 0, To: 0.5, Columns: []string{"id"}, Rate: 0.5, Where: r.filter("x IS NOT NULL")},
		"nothing":  {Rate: 0},
	} {
		for _, filter := range []string{"", "id >= 40 AND id < 80"} {
			source := r.source()
			if filter != "" {
				source.Filter = r.filter(filter)
			}
			// The result of Keep for each file as a whole.
			kept := map[int64]bool{}
			for i, f := range r.list {
				rows := r.rows[i]
				all := make([]int32, rows.NumRows())
				for at := range all {
					all[at] = int32(at)
				}
				keep, err := s.Keep(nil, rows, all, f.Location, 0, nil)
				require.NoError(t, err)
				for _, at := range keep {
					kept[rows.Column(0).(*array.Int64).Value(int(at))] = true
				}
			}
			pass := func(id int64) bool { return kept[id] && (filter == "" || id >= 40 && id < 80) }
			source.Sample = s
			for _, opts := range []scan.Options{{}, {BatchRows: 1}, {BatchRows: 9, Ahead: scan.NoAhead}} {
				got := r.read(r.scanner(opts), source, columns)
				require.NoError(t, got.err)
				require.Equal(t, r.want(source, columns, pass), got.lines, name)
			}
			source.Files = source.Files[:1]
			source.Files[0].From, source.Files[0].To = 13, 45
			got := r.read(r.scanner(scan.Options{BatchRows: 4}), source, columns)
			require.NoError(t, got.err)
			require.Equal(t, r.want(source, columns, pass), got.lines, "a range of a file, %s", name)
		}
	}
}

func TestSampleByUnknownColumn(t *testing.T) {
	t.Parallel()
	r := small(t)
	source := r.source()
	source.Sample = &plan.Sample{To: 1, Columns: []string{"gone"}, Rate: 1}
	_, err := r.scanner(scan.Options{}).Open(t.Context(), source, nil)
	require.Equal(t, fault.Internal, fault.KindOf(err))
}

// twoKeys lists files of several specs: by bucket of key, by buckets of key
// and of id, by bucket of id, and by none.
func twoKeys(t testing.TB) *rig {
	r := newRig(t)
	onKey := r.table.Specs[0][0]
	onID := catalog.PartitionField{ID: 1002, Source: 1, Name: "id_bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: 2}}
	r.table.Specs = map[int]catalog.Spec{0: {onKey}, 1: {onKey, onID}, 2: {onID}, 3: {}}
	return r
}

// withIDs makes n rows whose keys are of one bucket of 4 and whose ids are of
// one of 2.
func withIDs(n int, key, id int32) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for v := int64(0); b.Len() < n; v++ {
		if buckettest.Of(bucket.HashInt64(v), 2) == int(id) {
			b.Append(v)
		}
	}
	return retyped(makeRows(0, n, key), 0, b.NewArray())
}

// spec: resolve-8
func TestEveryBucketOfAFileIsChecked(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		spec     int
		values   []any
		key, id  int32 // the buckets that the rows are of
		mismatch string
	}{
		{spec: 0, values: []any{int64(1)}, key: 1, id: 0},
		{spec: 0, values: []any{int64(1)}, key: 2, id: 0, mismatch: "key"},
		{spec: 1, values: []any{int64(1), int64(1)}, key: 1, id: 1},
		{spec: 1, values: []any{int64(1), int64(1)}, key: 2, id: 1, mismatch: "key"},
		{spec: 1, values: []any{int64(1), int64(1)}, key: 1, id: 0, mismatch: "id"},
		{spec: 2, values: []any{int64(1)}, key: 3, id: 1},
		{spec: 2, values: []any{int64(1)}, key: 1, id: 0, mismatch: "id"},
		{spec: 3, values: []any{}, key: 3, id: 0},
		{spec: 7, values: nil, key: 3, id: 0}, // a spec that the table does not list says nothing
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			r := twoKeys(t)
			add := func(spec int, values []any, rows arrow.RecordBatch) {
				f := r.add(rows, 0, parquettest.Options{Plain: true})
				f.Spec, f.Partition = spec, values
			}
			// Good files of every spec, before and after.
			add(0, []any{int64(2)}, withIDs(5, 2, 0))
			add(2, []any{int64(1)}, withIDs(5, 3, 1))
			add(c.spec, c.values, withIDs(5, c.key, c.id))
			add(1, []any{int64(0), int64(1)}, withIDs(5, 0, 1))
			add(3, nil, withIDs(5, 3, 0))
			source := r.source()
			source.Checked = []catalog.Field{r.table.Fields[1], r.table.Fields[0]}
			got := r.read(r.scanner(scan.Options{}), source, r.columns("x"))
			if c.mismatch == "" {
				require.NoError(t, got.err)
				require.Len(t, got.lines, 25)
				return
			}
			require.Equal(t, fault.Corrupt, fault.KindOf(got.err))
			require.ErrorContains(t, got.err, fmt.Sprintf("has %s = ", c.mismatch))
			require.ErrorContains(t, got.err, locationOf(2))
			require.Len(t, got.lines, 10)
			if c.spec == 1 {
				require.ErrorContains(t, got.err, "read bucket 1, 1 of ml.impressions@8812")
			}
		})
	}
}
