package extend_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/parquet/write"
)

// TestAddColumns adds columns to files of this server and of the library, with all codecs, page
// versions and indexes.
//
// spec: file-16, file-17
func TestAddColumns(t *testing.T) {
	t.Parallel()
	const rows = 21_000 // a row group of this server ends after 8192 rows at the earliest
	old := oldRows(rows)
	var files [][]byte
	var to memoryFile
	w, err := write.New(t.Context(), &to, write.Options{Schema: old.Schema(), Bloom: []int{1}, PageRows: 100, RowGroupBytes: 1, Sorting: []write.SortingColumn{{FieldID: 1}}})
	require.NoError(t, err)
	require.NoError(t, w.Write(t.Context(), old))
	_, err = w.Close(t.Context())
	require.NoError(t, err)
	w.Release()
	require.Equal(t, 3, footer(t, to.Bytes()).NumRowGroups())
	files = append(files, to.Bytes())
	for i := range 5 {
		reader, err := array.NewRecordReader(old.Schema(), []arrow.RecordBatch{old})
		require.NoError(t, err)
		var to bytes.Buffer
		require.NoError(t, parquettest.Write(&to, reader, parquettest.Options{
			Codec: parquettest.Codec(i), PageV2: i%2 == 0, PageIndex: i%3 == 0, RowGroupRows: []int64{0, 3333, 900}[i%3], PageBytes: 500, NoStatistics: i == 4, CreatedBy: "parquet-mr version 1.12.3 (build f8dced182c4c1fbdec6ccb3185537b5a01e6ed6b)",
		}))
		files = append(files, to.Bytes())
		reader.Release()
	}
	for i, content := range files {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			made, out, err := add(t, content, rows, extend.Options{Write: write.Options{PageRows: 100}})
			require.NoError(t, err)
			require.Equal(t, int64(len(made)), out.Bytes)
			require.Equal(t, map[int]int64{1001: rows, 1003: 28_000}, out.Values)
			requireMoved(t, content, made)
			requireColumns(t, made, []int{1, 2, 3}, old)
			requireColumns(t, made, []int{1001, 1002}, news(0, rows))
			meta := footer(t, made)
			require.Len(t, out.Splits, meta.NumRowGroups())
			for g := range meta.NumRowGroups() {
				require.Equal(t, footer(t, content).RowGroup(g).NumRows(), meta.RowGroup(g).NumRows())
				require.Equal(t, footer(t, content).RowGroup(g).SortingColumns(), meta.RowGroup(g).SortingColumns())
			}
		})
	}
	made, _, err := add(t, files[0], rows, extend.Options{})
	require.NoError(t, err)
	f, err := parquet.Open(t.Context(), object(t, made), parquet.Options{})
	require.NoError(t, err)
	missed := 0
	for i := range int64(700) {
		may, err := f.MayHold(t.Context(), 0, 1, arrow.PrimitiveTypes.Int64, []any{i * 7})
		require.NoError(t, err)
		require.True(t, may)
		if may, err = f.MayHold(t.Context(), 0, 1, arrow.PrimitiveTypes.Int64, []any{i*7 + 1}); err == nil && !may {
			missed++
		}
	}
	require.Greater(t, missed, 500, "the bloom filter was moved")
}

// TestFilesOfOthers adds columns to files of Spark, pyarrow and DuckDB, also without field ids.
//
// spec: file-16, file-18
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join("..", "testdata", "*.parquet"))
	require.NoError(t, err)
	require.Greater(t, len(names), 10)
	folder := t.TempDir()
	t.Run("files", func(t *testing.T) {
		for _, name := range names {
			t.Run(filepath.Base(name), func(t *testing.T) {
				t.Parallel()
				addToFile(t, name, folder)
			})
		}
	})
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to read files with; make test-go sets it")
	}
	command := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "compare.py"), folder)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, "%s", &stderr)
	var least, most int
	_, err = fmt.Sscan(string(output), &least, &most)
	require.NoError(t, err)
	require.Greater(t, least, 10, "%s", output)
}

// addToFile adds columns to a file, and writes both files to a folder.
func addToFile(t *testing.T, name, folder string) {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	before := footer(t, content)
	ids, mapped := map[string]int{}, true // a mapping counts only for files without any id
	for i := range before.Schema.Root().NumFields() {
		f := before.Schema.Root().Field(i)
		ids[f.Name()] = 2000 + i
		mapped = mapped && f.FieldID() < 0
	}
	find := func(path []string) (int, int, bool) {
		id, ok := ids[path[0]]
		return id, 0, ok && len(path) == 1
	}
	made, _, err := add(t, content, int(before.NumRows), extend.Options{NameMapping: find})
	require.NoError(t, err)
	if before.NumRows > 0 {
		requireMoved(t, content, made)
	}
	requireColumns(t, made, []int{1001, 1002}, news(0, int(before.NumRows)))
	after := footer(t, made)
	for i := range before.Schema.Root().NumFields() {
		was, is := before.Schema.Root().Field(i), after.Schema.Root().Field(i)
		require.Equal(t, was.Name(), is.Name())
		if mapped {
			require.Equal(t, int32(ids[was.Name()]), is.FieldID())
		} else {
			require.Equal(t, was.FieldID(), is.FieldID())
		}
	}
	for i := range before.Schema.NumColumns() {
		require.Equal(t, before.Schema.Column(i).Path(), after.Schema.Column(i).Path())
		require.Equal(t, fmt.Sprint(before.Schema.Column(i).LogicalType()), fmt.Sprint(after.Schema.Column(i).LogicalType()))
	}
	require.Nil(t, after.KeyValueMetadata().FindValue("ARROW:schema"))
	require.Nil(t, after.KeyValueMetadata().FindValue("org.apache.spark.sql.parquet.row.metadata"))
	for prefix, content := range map[string][]byte{"old-": content, "new-": made} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, prefix+filepath.Base(name)), content, 0o600))
	}
}

// TestOtherNumbersOfRows writes fewer and more rows than the old file has.
//
// spec: file-19
func TestOtherNumbersOfRows(t *testing.T) {
	t.Parallel()
	old := oldRows(1000)
	var to bytes.Buffer
	reader, err := array.NewRecordReader(old.Schema(), []arrow.RecordBatch{old})
	require.NoError(t, err)
	defer reader.Release()
	require.NoError(t, parquettest.Write(&to, reader, parquettest.Options{RowGroupRows: 400}))
	for _, rows := range []int{0, 1, 400, 800, 999, 1001, 1200} {
		for _, pageRows := range []int64{0, 100} {
			_, _, err := add(t, to.Bytes(), rows, extend.Options{Write: write.Options{PageRows: pageRows}})
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%d rows", rows)
			require.ErrorContains(t, err, "rows", "%d rows", rows)
		}
	}
	_, _, err = add(t, to.Bytes(), 1000, extend.Options{})
	require.NoError(t, err)
}

// TestOlderFooters adds columns to files of older writers: without lengths of bloom filters, and
// without an order for minima and maxima, which are then left out.
//
// spec: file-16
func TestOlderFooters(t *testing.T) {
	t.Parallel()
	content := oldFile(t, oldRows(500))
	made, _, err := add(t, withFooter(t, content, func(m *metadata.FileMetaData) {
		for _, c := range m.RowGroups[0].Columns {
			c.MetaData.BloomFilterLength = nil
		}
	}), 500, extend.Options{})
	require.NoError(t, err)
	requireMoved(t, content, made)
	for i, c := range footer(t, made).RowGroups[0].Columns[:2] {
		old := footer(t, content).RowGroups[0].Columns[i].MetaData
		require.Equal(t, content[*old.BloomFilterOffset:][:*old.BloomFilterLength], made[*c.MetaData.BloomFilterOffset:][:*c.MetaData.BloomFilterLength])
	}

	unordered := withFooter(t, content, func(m *metadata.FileMetaData) { m.ColumnOrders = nil })
	made, _, err = add(t, unordered, 500, extend.Options{})
	require.NoError(t, err)
	requireColumns(t, made, []int{1, 2, 3}, oldRows(500))
	for i, c := range footer(t, made).RowGroups[0].Columns {
		old := i < 3
		require.Equal(t, old, c.ColumnIndexOffset == nil, "column %d", i)
		require.Equal(t, old, c.MetaData.Statistics.MinValue == nil, "column %d", i)
	}
}

// TestDamagedFooters refuses indexes and filters outside the file, and filters that cannot be read.
func TestDamagedFooters(t *testing.T) {
	t.Parallel()
	content := oldFile(t, oldRows(500))
	for name, change := range map[string]func(*metadata.FileMetaData){
		"a column index": func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[0].ColumnIndexOffset = 1 << 40 },
		"a length":       func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[0].OffsetIndexLength = -1 },
		"another index":  func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[0].OffsetIndexOffset = 5 },
		"a bloom filter": func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[0].MetaData.BloomFilterOffset = 1 << 40 },
		"a filter's bytes": func(m *metadata.FileMetaData) {
			m.RowGroups[0].Columns[0].MetaData.BloomFilterLength, *m.RowGroups[0].Columns[0].MetaData.BloomFilterOffset = nil, 5
		},
	} {
		_, _, err := add(t, withFooter(t, content, change), 500, extend.Options{})
		require.Equal(t, fault.Corrupt, fault.KindOf(err), name)
	}
}

// TestRefusals refuses new columns that the old file cannot have.
//
// spec: file-18
func TestRefusals(t *testing.T) {
	t.Parallel()
	old := oldRows(10)
	var to memoryFile
	w, err := write.New(t.Context(), &to, write.Options{Schema: old.Schema()})
	require.NoError(t, err)
	defer w.Release()
	require.NoError(t, w.Write(t.Context(), old))
	_, err = w.Close(t.Context())
	require.NoError(t, err)
	with := func(fields ...arrow.Field) write.Options {
		return write.Options{Schema: arrow.NewSchema(fields, nil)}
	}
	for name, c := range map[string]struct {
		opts extend.Options
		says string
	}{
		"an old name":      {extend.Options{Write: with(field("id", arrow.PrimitiveTypes.Int64, 9))}, "has a column id already"},
		"an old id":        {extend.Options{Write: with(field("n", arrow.PrimitiveTypes.Int64, 2))}, "the field id 2, and so has column text"},
		"an old nested id": {extend.Options{Write: with(field("n", arrow.ListOfField(field("element", arrow.PrimitiveTypes.Int64, 4)), 9))}, "the field id 4, and so has column element"},
	} {
		_, _, err := add(t, to.Bytes(), 10, c.opts)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.ErrorContains(t, err, c.says, name)
	}
	_, _, err = add(t, to.Bytes()[:to.Len()-1], 10, extend.Options{})
	require.Error(t, err)
}

// A file without field ids gets those of a name mapping, at any depth. Columns that the mapping lacks get ids that no table has.
//
// spec: file-18, promote-14
func TestNameMappingGivesIDs(t *testing.T) {
	content, err := os.ReadFile("../testdata/without-ids.parquet")
	require.NoError(t, err)
	before := footer(t, content)
	root := before.Schema.Root()
	known := root.Field(0).Name()
	paths := map[string]bool{}
	find := func(path []string) (int, int, bool) {
		text := strings.Join(path, ".")
		paths[text] = true
		if path[0] == known {
			return 40 + len(path), 0, true
		}
		return 0, 0, false
	}
	made, _, err := add(t, content, int(before.NumRows), extend.Options{NameMapping: find})
	require.NoError(t, err)
	requireMoved(t, content, made)
	after := footer(t, made).Schema.Root()
	require.Equal(t, int32(41), after.Field(0).FieldID())
	for i := 1; i < root.NumFields(); i++ {
		require.GreaterOrEqual(t, after.Field(i).FieldID(), int32(2_000_000_000), after.Field(i).Name())
	}
	checked, err := parquet.Open(t.Context(), object(t, made), parquet.Options{})
	require.NoError(t, err)
	require.True(t, checked.HasFieldIDs())
	require.True(t, checked.HasNestedFieldIDs())
	_, _, err = add(t, content, int(before.NumRows), extend.Options{NameMapping: func([]string) (int, int, bool) { return 7, 0, true }})
	require.ErrorContains(t, err, "the same field id 7")
}

// A new column whose name the file has gets another one there.
func TestTakenNamesGetTheID(t *testing.T) {
	content, err := os.ReadFile("../testdata/nulls-1.parquet")
	require.NoError(t, err)
	before := footer(t, content)
	taken := before.Schema.Root().Field(0).Name()
	schema := arrow.NewSchema([]arrow.Field{field(taken, arrow.PrimitiveTypes.Int64, 1001), added().Field(1)}, nil)
	_, _, err = add(t, content, int(before.NumRows), extend.Options{Write: write.Options{Schema: schema}})
	require.ErrorContains(t, err, "has a column "+taken+" already")
	made, _, err := add(t, content, int(before.NumRows), extend.Options{Write: write.Options{Schema: schema}, OtherNames: true})
	require.NoError(t, err)
	root := footer(t, made).Schema.Root()
	require.Equal(t, taken+"_1001", root.Field(before.Schema.Root().NumFields()).Name())
}

// Columns of a file that has the new ones already are replaced: their pages stay, under ids and names that no table uses.
func TestTakenIDsGetOthers(t *testing.T) {
	content, err := os.ReadFile("../testdata/nulls-1.parquet")
	require.NoError(t, err)
	rows := int(footer(t, content).NumRows)
	for range 3 {
		made, _, err := add(t, content, rows, extend.Options{OtherNames: true})
		require.NoError(t, err)
		requireMoved(t, content, made)
		requireColumns(t, made, []int{1001, 1002}, news(0, rows))
		content = made
	}
	seen, names := map[int32]bool{}, map[string]bool{}
	for _, e := range footer(t, content).FileMetaData.Schema[1:] {
		require.False(t, e.FieldID != nil && seen[*e.FieldID], "two fields have the id %v", e.FieldID)
		if e.FieldID != nil {
			seen[*e.FieldID] = true
		}
	}
	root := footer(t, content).Schema.Root()
	for i := range root.NumFields() {
		require.False(t, names[root.Field(i).Name()], root.Field(i).Name())
		names[root.Field(i).Name()] = true
	}
}
