package scan_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"github.com/twmb/murmur3"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// retyped returns rows with other values in one column.
func retyped(rows arrow.RecordBatch, column int, values arrow.Array) arrow.RecordBatch {
	fields, arrays := slices.Clone(rows.Schema().Fields()), slices.Clone(rows.Columns())
	fields[column].Type, arrays[column] = values.DataType(), values
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, rows.NumRows())
}

// without is rows less one column; the field ids of the others.
func without(rows arrow.RecordBatch, column int) (arrow.RecordBatch, []int) {
	var ids []int
	var fields []arrow.Field
	var arrays []arrow.Array
	for i, f := range rows.Schema().Fields() {
		if i != column {
			ids, fields, arrays = append(ids, i+1), append(fields, f), append(arrays, rows.Column(i))
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, rows.NumRows()), ids
}

// TestFaultyFiles reads a good file and then a faulty one: the rows of the first are
// returned, then an error that names table and file, and never an end.
func TestFaultyFiles(t *testing.T) {
	t.Parallel()
	plain := parquettest.Options{Codec: parquettest.Snappy, Plain: true}
	for name, c := range map[string]struct {
		kind  fault.Kind
		text  string
		group bool         // whether the error names a row group
		make  func(r *rig) // adds the second file
	}{
		"missing": {kind: fault.Corrupt, text: "is missing", make: func(r *rig) {
			r.grow(5, 5, 1)
			r.files.Delete(locationOf(1))
		}},
		"longer than its manifest says":  {kind: fault.Corrupt, text: "bytes", make: func(r *rig) { r.grow(5, 5, 1).Bytes-- }},
		"shorter than its manifest says": {kind: fault.Corrupt, text: "bytes", make: func(r *rig) { r.grow(5, 5, 1).Bytes++ }},
		"truncated": {kind: fault.Corrupt, text: "does not end with the magic bytes of Parquet", make: func(r *rig) {
			r.grow(5, 5, 1).Bytes = 100
			r.store.Set(errstore.Rule{Location: locationOf(1), Call: errstore.Open, Action: errstore.Truncate(100)})
		}},
		"more rows in the manifest":  {kind: fault.Corrupt, text: "footer counts 5 rows, the manifest 6", make: func(r *rig) { r.grow(5, 5, 1).Rows = 6 }},
		"fewer rows in the manifest": {kind: fault.Corrupt, text: "footer counts 5 rows, the manifest 4", make: func(r *rig) { r.grow(5, 5, 1).Rows = 4 }},
		"damaged": {kind: fault.Corrupt, group: true, make: func(r *rig) {
			f := r.add(makeRows(100, 50, 1), 1, parquettest.Options{})
			content, err := r.files.Open(r.t.Context(), f.Location, f.Bytes)
			require.NoError(r.t, err)
			bytes := make([]byte, f.Bytes)
			require.NoError(r.t, content.ReadAt(r.t.Context(), memory.NewBufferBytes(bytes), 0))
			clear(bytes[4 : f.Bytes/3])
			r.files.Put(f.Location, bytes)
		}},
		"of another type": {kind: fault.Invalid, text: "x", make: func(r *rig) {
			rows := makeRows(100, 5, 1)
			r.add(retyped(rows, 2, rows.Column(1)), 1, plain)
		}},
		"of a narrower decimal": {kind: fault.Invalid, text: "price", make: func(r *rig) {
			rows := makeRows(100, 5, 1)
			b := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 12, Scale: 3})
			b.AppendNulls(5)
			r.add(retyped(rows, 4, b.NewArray()), 1, plain)
		}},
		"without a required column": {kind: fault.Corrupt, text: "which the table requires", make: func(r *rig) {
			rows, ids := without(makeRows(100, 5, 1), 0)
			r.add(rows, 1, parquettest.Options{FieldIDs: ids})
		}},
		"whose key column is absent": {kind: fault.Corrupt, text: "belongs to bucket null", group: true, make: func(r *rig) {
			rows, ids := without(makeRows(100, 5, 1), 1)
			r.add(rows, 1, parquettest.Options{FieldIDs: ids})
		}},
		"with a partition value of another type": {kind: fault.Corrupt, text: "3, a string, as the file's value of column day, whose type is date32", make: func(r *rig) {
			rows, ids := without(makeRows(100, 5, 1), 5)
			f := r.add(rows, 1, parquettest.Options{FieldIDs: ids})
			f.Spec, f.Partition = 1, []any{"3", int64(1)}
		}},
		"without field ids": {kind: fault.Invalid, text: "field ids", make: func(r *rig) {
			r.add(makeRows(100, 5, 1), 1, parquettest.Options{FieldIDs: []int{parquet.NoFieldID, 2, 3, 4, 5, 6, 7}})
		}},
		"of another bucket": {kind: fault.Corrupt, text: "belongs to bucket 2 of 4; the manifest says that the file is of bucket 1", group: true, make: func(r *rig) {
			r.add(makeRows(100, 5, 2), 1, plain)
		}},
		"of the null bucket, with keys": {kind: fault.Corrupt, text: "of bucket null", group: true, make: func(r *rig) { r.add(makeRows(100, 5, 2), bucket.Null, plain) }},
		"of a bucket, with null keys":   {kind: fault.Corrupt, text: "belongs to bucket null", group: true, make: func(r *rig) { r.add(makeRows(100, 5, bucket.Null), 0, plain) }},
		"whose range is too long":       {kind: fault.Internal, text: "rows 0 to 6", make: func(r *rig) { r.grow(5, 5, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.grow(10, 4, 1)
			c.make(r)
			source := r.source()
			if name == "whose range is too long" {
				source.Files[1].To = 6
			}
			for _, ahead := range []int64{0, scan.NoAhead} {
				got := r.read(r.scanner(scan.Options{Ahead: ahead}), source, r.columns(all...))
				require.Error(t, got.err)
				require.Equal(t, c.kind, fault.KindOf(got.err), got.err)
				require.ErrorContains(t, got.err, c.text)
				require.Equal(t, name == "missing", errors.Is(got.err, fs.ErrNotExist), "the catalog checks whether the table still has the file")
				require.ErrorContains(t, got.err, "ml.impressions@8812")
				e := fault.As(got.err)
				require.Equal(t, "ml.impressions", e.Table)
				require.Equal(t, locationOf(1), e.File, got.err)
				require.Equal(t, c.group, e.RowGroup != nil, got.err)
				if c.kind != fault.Internal {
					first := source
					first.Files = source.Files[:1]
					require.Equal(t, r.want(first, r.columns(all...), nil), got.lines)
				}
			}
		})
	}
}

// TestSurplusRows reads a file whose pages have more rows than its footer counts.
func TestSurplusRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	write := func(n int) ([]byte, int) {
		// Two values in a dictionary: the bits of 17 to 24 rows take three bytes.
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for i := range n {
			b.Append(int64(i % 2))
		}
		ids := arrow.NewSchema([]arrow.Field{fields()[0].Arrow()}, nil)
		f := r.add(array.NewRecordBatch(ids, []arrow.Array{b.NewArray()}, int64(n)), 1, parquettest.Options{Codec: parquettest.Uncompressed})
		o, err := r.files.Open(t.Context(), f.Location, f.Bytes)
		require.NoError(t, err)
		content := make([]byte, f.Bytes)
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(content), 0))
		return content, len(content) - 8 - int(binary.LittleEndian.Uint32(content[len(content)-8:]))
	}
	few, footer := write(20)
	many, pages := write(24)
	content := append(slices.Clone(many[:pages]), few[footer:]...)
	r.files.Put(locationOf(0), content)
	r.list[0].Bytes = int64(len(content))
	source := r.source()
	source.Checked, source.Files = nil, source.Files[:1]
	got := r.read(r.scanner(scan.Options{}), source, r.columns("id"))
	require.Equal(t, fault.Corrupt, fault.KindOf(got.err))
	require.ErrorContains(t, got.err, "the pages have 24 values, the footer counts 20")
}

// TestErrorForWrongBucketNamesFileAndKey reads a file with one row in the wrong bucket.
//
// spec: resolve-8
func TestErrorForWrongBucketNamesFileAndKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keys := array.NewStringBuilder(memory.DefaultAllocator)
	wrong := ""
	for i := range 30 {
		b := int32(1)
		if i == 17 {
			b = 3
		}
		key, _ := keyOf(b, i)
		if i == 17 {
			wrong = key
		}
		keys.Append(key)
	}
	r.add(retyped(makeRows(0, 30, 1), 1, keys.NewArray()), 1, parquettest.Options{RowGroupRows: 10, Plain: true})
	columns := r.columns("id")

	got := r.read(r.scanner(scan.Options{BatchRows: 4}), r.source(), columns)
	require.Equal(t, fault.Corrupt, fault.KindOf(got.err))
	require.Equal(t, "read bucket 1 of ml.impressions@8812: row 17 has key = "+wrong+", which belongs to bucket 3 of 4; "+
		"the manifest says that the file is of bucket 1 (file file:///t/0.parquet, row group 1); the table's layout is wrong: rewrite the file",
		got.err.Error())
	require.LessOrEqual(t, len(got.lines), 17)

	source := r.source()
	source.Filter = r.filter("id <> 17")
	require.Error(t, r.read(r.scanner(scan.Options{}), source, columns).err, "the row is checked although the filter drops it")

	for _, c := range []struct {
		from, to int64
		fails    bool
	}{{0, 17, false}, {18, 30, false}, {17, 18, true}, {16, 18, true}, {10, 20, true}, {10, 17, false}} {
		source := r.source()
		source.Files[0].From, source.Files[0].To = c.from, c.to
		got := r.read(r.scanner(scan.Options{}), source, columns)
		require.Equal(t, c.fails, got.err != nil, "rows %d to %d: only those in the range are checked", c.from, c.to)
	}

	unchecked := r.source()
	unchecked.Checked = nil
	require.NoError(t, r.read(r.scanner(scan.Options{}), unchecked, columns).err)
}

func TestLongKeysAreCut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keys := array.NewStringBuilder(memory.DefaultAllocator)
	keys.Append("a" + strings.Repeat("é", 500))
	wrong := (buckettest.Of(int32(murmur3.Sum32([]byte(keys.Value(0)))), buckets) + 1) % buckets
	r.add(retyped(makeRows(0, 1, 1), 1, keys.NewArray()), int32(wrong), parquettest.Options{})
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
	require.ErrorContains(t, got.err, "é…")
	require.Less(t, len(got.err.Error()), 500)
	require.True(t, utf8.ValidString(got.err.Error()))
}

// TestEveryReadFails makes each call of storage fail in turn: the stream fails, and the rows
// before are the first rows.
func TestEveryReadFails(t *testing.T) {
	t.Parallel()
	r := small(t)
	columns := r.columns(all...)
	whole := r.read(r.scanner(scan.Options{}), r.source(), columns)
	require.NoError(t, whole.err)
	counts := r.store.Counts()
	broken := errors.New("broken")
	for _, call := range []errstore.Call{errstore.Read, errstore.Open} {
		calls := counts.Reads
		if call == errstore.Open {
			calls = counts.Opens
		}
		require.Positive(t, calls)
		for nth := 1; nth <= calls; nth++ {
			for _, ahead := range []int64{0, 1, scan.NoAhead} {
				for cause, kind := range map[error]fault.Kind{nil: fault.Unavailable, broken: fault.Internal, context.DeadlineExceeded: fault.Unavailable} {
					r.store.Set(errstore.Rule{Call: call, Nth: nth, Action: errstore.Fail(cause)})
					got := r.read(r.scanner(scan.Options{BatchRows: 9, Ahead: ahead}), r.source(), columns)
					require.Error(t, got.err, "call %d fails, and the stream ends as if it were whole", nth)
					require.Equal(t, kind, fault.KindOf(got.err), got.err)
					if cause != nil {
						require.ErrorIs(t, got.err, cause)
					}
					require.Less(t, len(got.lines), len(whole.lines))
					require.Equal(t, whole.lines[:len(got.lines)], got.lines)
				}
			}
		}
	}
}

// TestCancel ends the context while storage does not answer, at every read.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := small(t)
	whole := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id", "tags"))
	require.NoError(t, whole.err)
	reads := r.store.Counts().Reads
	for nth := 1; nth <= reads; nth++ {
		gate := make(chan struct{})
		r.store.Set(errstore.Rule{Call: errstore.Read, Nth: nth, Action: errstore.Hold(gate)})
		ctx, cancel := context.WithCancel(t.Context())
		s := r.scanner(scan.Options{})
		rdr, err := s.Open(ctx, r.source(), r.columns("id", "tags"))
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for more := true; more; {
				more = rdr.Next()
			}
		}()
		cancel()
		<-done
		require.ErrorIs(t, rdr.Err(), context.Canceled)
		require.ErrorContains(t, rdr.Err(), "ml.impressions@8812")
		rdr.Release()
		close(gate)
		require.Zero(t, r.store.Counts().Open)
	}
}

func TestCancelledBeforeTheFirstNext(t *testing.T) {
	t.Parallel()
	r := small(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := fault.New(fault.Unavailable, "the client went away")
	cancel(gone)
	got := r.readWith(ctx, r.scanner(scan.Options{}), r.source(), r.columns("id"))
	require.ErrorIs(t, got.err, gone)
	require.Empty(t, got.lines)
}

// TestReleaseWhileStorageHangs checks that Release does not wait for storage.
func TestReleaseWhileStorageHangs(t *testing.T) {
	t.Parallel()
	r := small(t)
	gate := make(chan struct{})
	defer close(gate)
	r.store.Set(errstore.Rule{Call: errstore.Read, Nth: 3, Action: errstore.Hold(gate)})
	rdr, err := r.scanner(scan.Options{BatchRows: 5}).Open(t.Context(), r.source(), r.columns("id"))
	require.NoError(t, err)
	require.True(t, rdr.Next())
	rdr.Release()
	require.Zero(t, r.store.Counts().Open)
}

// TestUnknownColumns checks callers that break the contract.
func TestUnknownColumns(t *testing.T) {
	t.Parallel()
	r := small(t)
	s := r.scanner(scan.Options{})
	other := newTable()
	other.Fields = append(other.Fields, catalog.Field{ID: 50, Name: "gone", Type: arrow.PrimitiveTypes.Int64})
	foreign := rig{t: t, table: other}
	for name, c := range map[string]struct {
		columns []catalog.Field
		change  func(*plan.Source)
	}{
		"unknown":        {columns: []catalog.Field{other.Fields[7]}},
		"another type":   {columns: []catalog.Field{{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int32, Required: true}}},
		"nullable":       {columns: []catalog.Field{{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64}}},
		"unknown filter": {change: func(s *plan.Source) { s.Filter = foreign.filter("gone = 1") }},
		"unknown key":    {change: func(s *plan.Source) { s.Checked = other.Fields[7:8] }},
		"range":          {change: func(s *plan.Source) { s.Files[0].From = -1 }},
	} {
		source := r.source()
		if c.change != nil {
			c.change(&source)
		}
		_, err := s.Open(t.Context(), source, c.columns)
		require.Equal(t, fault.Internal, fault.KindOf(err), name)
		require.ErrorContains(t, err, "read ml.impressions@8812", name)
	}
}

// TestChecksums checks that a scan reports whether pages had checksums, and that files
// without them are refused, without returning any of their rows, if checksums are required.
func TestChecksums(t *testing.T) {
	r := newRig(t)
	r.grow(10, 5, 0)
	read := func(o scan.Options) *scan.Reader {
		rows, err := r.scanner(o).Open(t.Context(), r.source(), r.columns("id", "tags"))
		require.NoError(t, err)
		t.Cleanup(rows.Release)
		return rows
	}
	rows := read(scan.Options{})
	require.False(t, rows.WithoutChecksum(), "nothing was read")
	require.True(t, rows.Next())
	require.True(t, rows.WithoutChecksum())

	rows = read(scan.Options{RequireChecksums: true})
	require.False(t, rows.Next())
	e := fault.As(rows.Err())
	require.Equal(t, fault.Invalid, e.Kind)
	require.Equal(t, r.list[0].Location, e.File)
	require.Equal(t, "ml.impressions", e.Table)
	require.ErrorContains(t, e, "column id has pages without a checksum")
	require.False(t, rows.WithoutChecksum(), "they were refused")
}
