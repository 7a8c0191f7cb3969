package foreign_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// fields are columns of longs and texts.
func fields(names ...string) *arrow.Schema {
	out := make([]arrow.Field, len(names))
	for i, name := range names {
		out[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}
		if strings.HasPrefix(name, "text") {
			out[i].Type = arrow.BinaryTypes.String
		}
	}
	return arrow.NewSchema(out, nil)
}

// write writes a file in row groups of one row.
func write(t *testing.T, schema *arrow.Schema, rows string) string {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rows.parquet")
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(schema, file, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(1)), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(b))
	require.NoError(t, w.Close())
	return path
}

// spec: stage-46
func TestFilesAreReadInOrder(t *testing.T) {
	first := write(t, fields("id", "text"), `[{"id": 1, "text": "a"}, {"id": 2, "text": null}]`)
	empty := write(t, fields("id", "text"), `[]`)
	turned := write(t, fields("text", "id"), `[{"id": 3, "text": "c"}]`)
	limit := budget.New(64 << 20)
	r, err := foreign.Open(t.Context(), []string{first, empty, turned}, foreign.Options{Budget: limit})
	require.NoError(t, err)
	var ids, texts []string
	for r.Next() {
		b := r.RecordBatch()
		require.Equal(t, "id", b.Schema().Field(0).Name)
		for row := range int(b.NumRows()) {
			ids, texts = append(ids, b.Column(0).ValueStr(row)), append(texts, strings.Clone(b.Column(1).ValueStr(row)))
		}
		require.Positive(t, limit.Used())
	}
	require.NoError(t, r.Err())
	r.Release()
	require.Equal(t, []string{"1", "2", "3"}, ids)
	require.Equal(t, []string{"a", array.NullValueStr, "c"}, texts)
	require.Zero(t, limit.Used())
}

// spec: stage-46
func TestFilesThatCannotBeRead(t *testing.T) {
	good := write(t, fields("id"), `[{"id": 1}]`)
	damaged := write(t, fields("id", "text"), `[{"id": 1, "text": "`+strings.Repeat("x", 1000)+`"}]`)
	content, err := os.ReadFile(damaged) //nolint:gosec // a test's own file
	require.NoError(t, err)
	copy(content[4:], strings.Repeat("\xff", 30))
	require.NoError(t, os.WriteFile(damaged, content, 0o600)) //nolint:gosec // a test's own file
	for _, c := range []struct {
		kind  fault.Kind
		text  string
		files []string
	}{
		{fault.NotFound, "missing.parquet", []string{filepath.Join(t.TempDir(), "missing.parquet")}},
		{fault.Invalid, "has 2 columns, the first file 1", []string{good, write(t, fields("id", "text"), `[]`)}},
		{fault.Invalid, `does not have column "id"`, []string{good, write(t, fields("it"), `[]`)}},
		{fault.Invalid, "has type utf8, and in the first file int64", []string{write(t, fields("id", "x"), `[]`), write(t, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil), `[]`)}},
		{fault.Corrupt, "cannot be decoded", []string{damaged}},
		{fault.Corrupt, "set PARQUET_VERSION v1", []string{filepath.Join("..", "testdata", "duckdb-wide.parquet")}},
		{fault.Invalid, "there are no files", nil},
	} {
		limit := budget.New(64 << 20)
		r, err := foreign.Open(t.Context(), c.files, foreign.Options{Budget: limit})
		if err == nil {
			for r.Next() {
			}
			err = r.Err()
			r.Release()
		}
		require.ErrorContains(t, err, c.text)
		require.Equal(t, strings.Contains(c.text, "v1"), strings.Contains(err.Error(), "PARQUET_VERSION"))
		require.Equal(t, c.kind.String(), fault.KindOf(err).String())
		require.Zero(t, limit.Used())
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := foreign.Open(ctx, []string{good}, foreign.Options{})
	require.NoError(t, err)
	cancel()
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), context.Canceled)
	r.Release()
}

// The error of a file that is no complete Parquet file names the file, the cause and a remedy.
//
// spec: stage-164
func TestRefusedFilesHaveACause(t *testing.T) {
	whole, err := os.ReadFile(write(t, fields("id"), `[{"id": 1}]`))
	require.NoError(t, err)
	broken := bytes.Clone(whole)
	copy(broken[len(broken)-30:], strings.Repeat("\xff", 20))
	for name, c := range map[string]struct {
		content       []byte
		cause, remedy string
	}{
		"cut in the middle": {whole[:len(whole)/2], "its end is missing", "write or copy the file again, and stage it when it is complete"},
		"cut by one byte":   {whole[:len(whole)-1], "its end is missing", "write or copy the file again"},
		"cut to its start":  {whole[:5], "its end is missing", "write or copy the file again"},
		"empty":             {nil, "it is empty", "leave it out"},
		"texts":             {[]byte("id,text\n1,a\n"), "it has another format: it does not begin with PAR1", "a name that ends with its format"},
		"three bytes":       {[]byte("id\n"), "it has another format", "write the rows as Parquet"},
		"encrypted":         {append(bytes.Clone(whole[:len(whole)-4]), "PARE"...), "it is encrypted", "without encryption"},
		"a broken footer":   {broken, "the footer cannot be decoded: ", "the file is damaged"},
	} {
		path := filepath.Join(t.TempDir(), "a.parquet")
		require.NoError(t, os.WriteFile(path, c.content, 0o600))
		_, err := foreign.Open(t.Context(), []string{path}, foreign.Options{})
		require.ErrorContains(t, err, path+" cannot be read as a Parquet file: "+c.cause, name)
		require.Contains(t, fault.As(err).Remedy, c.remedy, name)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
}

// Times that are stored as INT96, as by Spark, are microseconds, and equal to those that other files store as such.
//
// spec: stage-140
func TestInt96IsReadAsMicroseconds(t *testing.T) {
	schema := func(unit arrow.TimeUnit) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "at", Type: &arrow.TimestampType{Unit: unit, TimeZone: "UTC"}, Nullable: true},
		}, nil)
	}
	path := filepath.Join(t.TempDir(), "int96.parquet")
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(schema(arrow.Nanosecond), file, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties(pqarrow.WithDeprecatedInt96Timestamps(true)))
	require.NoError(t, err)
	times := array.NewRecordBuilder(memory.DefaultAllocator, schema(arrow.Nanosecond))
	times.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, nil)
	times.Field(1).(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{1_790_856_000_000_001_999, -999, 0}, []bool{true, true, false})
	b := times.NewRecordBatch()
	require.NoError(t, w.Write(b))
	require.NoError(t, w.Close())
	other := write(t, schema(arrow.Microsecond), `[{"id": 4, "at": 1790856000000002}]`)
	limit := budget.New(64 << 20)
	r, err := foreign.Open(t.Context(), []string{path, other}, foreign.Options{Budget: limit})
	require.NoError(t, err)
	var got []string
	for r.Next() {
		for i := range int(r.RecordBatch().NumRows()) {
			got = append(got, r.RecordBatch().Column(1).ValueStr(i))
		}
	}
	require.NoError(t, r.Err())
	require.Equal(t, arrow.FixedWidthTypes.Timestamp_us, r.Schema().Field(1).Type)
	require.Equal(t, []string{"2026-10-01T12:00:00.000001Z", "1969-12-31T23:59:59.999999Z", array.NullValueStr, "2026-10-01T12:00:00.000002Z"}, got)
	r.Release()
	require.Zero(t, limit.Used())
}

// Times inside of lists, structs and maps are converted as well, also in slices of batches.
//
// spec: stage-140
func TestInt96InsideColumnsIsReadAsMicroseconds(t *testing.T) {
	ofUnit := func(unit arrow.TimeUnit) *arrow.Schema {
		at := &arrow.TimestampType{Unit: unit, TimeZone: "UTC"}
		pair := arrow.StructOf(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "at", Type: at, Nullable: true})
		return arrow.NewSchema([]arrow.Field{
			{Name: "list", Type: arrow.ListOf(at), Nullable: true},
			{Name: "pairs", Type: arrow.ListOf(pair), Nullable: true},
			{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, at), Nullable: true},
		}, nil)
	}
	rows := func(unit string) string {
		return strings.ReplaceAll(`[
			{"list": ["2026-10-01T12:00:00.000001?Z", null], "pairs": [{"n": 1, "at": "1969-12-31T23:59:59.999999?Z"}, null, {"n": null, "at": null}], "map": [{"key": "a", "value": "1970-01-01T00:00:00Z"}]},
			{"list": null, "pairs": [], "map": null},
			{"list": [], "pairs": [{"n": 2, "at": "2026-10-01T12:00:00Z"}], "map": []}
		]`, "?", unit)
	}
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, ofUnit(arrow.Nanosecond), strings.NewReader(rows("000")))
	require.NoError(t, err)
	want, _, err := array.RecordFromJSON(memory.DefaultAllocator, ofUnit(arrow.Microsecond), strings.NewReader(rows("")))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "int96.parquet")
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(ofUnit(arrow.Nanosecond), file, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties(pqarrow.WithDeprecatedInt96Timestamps(true)))
	require.NoError(t, err)
	require.NoError(t, w.Write(b))
	require.NoError(t, w.Close())
	limit := budget.New(64 << 20)
	r, err := foreign.Open(t.Context(), []string{path}, foreign.Options{Budget: limit})
	require.NoError(t, err)
	require.True(t, r.Next(), "%v", r.Err())
	got := r.RecordBatch()
	for i := range int(want.NumCols()) {
		require.Equal(t, want.Column(i).String(), got.Column(i).String())
		require.Equal(t, want.Column(i).ValueStr(2), got.Column(i).ValueStr(2))
	}
	require.False(t, r.Next())
	require.NoError(t, r.Err())
	r.Release()
	require.Zero(t, limit.Used())
}
