package inputs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// touch makes empty files below a folder.
func touch(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		name = filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
}

// found returns the names that Find returns, without a prefix.
func found(t *testing.T, o inputs.Options, prefix string, names ...string) []string {
	t.Helper()
	files, err := inputs.Find(t.Context(), names, o)
	require.NoError(t, err)
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimPrefix(f.Name, prefix))
	}
	return out
}

// tree has the files of the tests, below a folder.
func tree() []string {
	return []string{
		"b.parquet", "a.parquet", "_SUCCESS", ".hidden", "sub/c.parquet", "sub/_temporary/d.parquet", "sub/.e.crc",
		"day=2/f.parquet", "_day=1/g.parquet", "not a.txt",
	}
}

// spec: stage-130
func TestLocalFoldersAndPatterns(t *testing.T) {
	home := t.TempDir()
	touch(t, home, tree()...)
	all := []string{"/_day=1/g.parquet", "/a.parquet", "/b.parquet", "/day=2/f.parquet", "/not a.txt", "/sub/c.parquet"}
	require.Equal(t, all, found(t, inputs.Options{}, home, home))
	require.Equal(t, all, found(t, inputs.Options{}, home, "file://"+home))
	require.Equal(t, []string{"/not a.txt"}, found(t, inputs.Options{}, home, "file://"+home+"/not%20a.txt"))
	require.Equal(t, []string{"/a.parquet", "/b.parquet"}, found(t, inputs.Options{}, home, home+"/*.parquet"))
	require.Equal(t, []string{"/b.parquet", "/a.parquet"}, found(t, inputs.Options{}, home, home+"/b*", home+"/a.parquet"))
	require.Equal(t, []string{"/day=2/f.parquet", "/sub/c.parquet"}, found(t, inputs.Options{}, home, home+"/[ds]*"))
	require.Equal(t, []string{"/_day=1/g.parquet", "/day=2/f.parquet"}, found(t, inputs.Options{}, home, home+"/*=*/*.parquet"))
	t.Chdir(home)
	require.Equal(t, []string{"a.parquet"}, found(t, inputs.Options{}, "", "[a]*"))
	touch(t, home, "[x].parquet")
	require.Equal(t, []string{"[x].parquet"}, found(t, inputs.Options{}, "", "[x].parquet"), "a file that exists is no pattern")
}

// spec: stage-130, stage-131
func TestNamesThatAreRefused(t *testing.T) {
	home := t.TempDir()
	touch(t, home, "a.parquet", "empty/_SUCCESS", "delta/_delta_log/0.json", "delta/a.parquet", "ice/data/a.parquet", "ice/metadata/v1.metadata.json", "linked/a.parquet")
	require.NoError(t, os.Symlink(filepath.Join(home, "empty"), filepath.Join(home, "linked", "to")))
	for text, c := range map[string]struct {
		kind  fault.Kind
		names []string
	}{
		"no such file or directory":    {fault.NotFound, []string{"missing.parquet"}},
		"has no files to read":         {fault.Invalid, []string{"empty"}},
		"no file matches":              {fault.NotFound, []string{"*.csv"}},
		"is not a pattern":             {fault.Invalid, []string{"[a*"}},
		"is a table in Delta format":   {fault.Invalid, []string{"delta"}},
		"is a table in Iceberg format": {fault.Invalid, []string{"ice"}},
		"is named twice":               {fault.Invalid, []string{"a.parquet", "*.parquet"}},
		"is not a regular file":        {fault.Invalid, []string{"linked"}},
	} {
		for i, name := range c.names {
			c.names[i] = filepath.Join(home, name)
		}
		_, err := inputs.Find(t.Context(), c.names, inputs.Options{})
		require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%s: %v", text, err)
		require.ErrorContains(t, err, text)
		require.NotEmpty(t, fault.As(err).Remedy)
		require.Equal(t, strings.Contains(text, "Iceberg"), strings.Contains(fault.As(err).Remedy, "--from-table"), "%v", err)
	}
	_, err := inputs.Find(t.Context(), []string{"s3://bucket/a"}, inputs.Options{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// bucket returns a store of remote files, and the options that read them.
func bucket() (*storetest.Memory, inputs.Options) {
	files := storetest.NewMemory()
	return files, inputs.Options{Remote: func(context.Context, string) (store.Store, error) { return files, nil }}
}

// spec: stage-132
func TestRemoteFoldersAndPatterns(t *testing.T) {
	files, o := bucket()
	for _, name := range tree() {
		files.Put("s3://b/in/"+name, nil)
	}
	all := []string{"_day=1/g.parquet", "a.parquet", "b.parquet", "day=2/f.parquet", "not a.txt", "sub/c.parquet"}
	require.Equal(t, all, found(t, o, "s3://b/in/", "s3://b/in/"))
	require.Equal(t, []string{"a.parquet", "b.parquet"}, found(t, o, "s3://b/in/", "s3://b/in/?.parquet"))
	require.Equal(t, []string{"a.parquet"}, found(t, o, "s3://b/in/", "s3://b/in/a.parquet"))
	require.Equal(t, []string{"day=2/f.parquet", "sub/c.parquet"}, found(t, o, "s3://b/in/", "s3://b/i*/[ds]*"))
	files.Put("s3://b/delta/_delta_log/0.json", nil)
	for text, c := range map[string]struct {
		kind fault.Kind
		name string
	}{
		"is missing":                 {fault.NotFound, "s3://b/in/missing"},
		"has no files to read":       {fault.Invalid, "s3://b/none/"},
		"no file matches":            {fault.NotFound, "s3://b/in/*.csv"},
		"is a table in Delta format": {fault.Invalid, "s3://b/delta/"},
		"names no bucket":            {fault.Invalid, "s3://*/in/"},
	} {
		_, err := inputs.Find(t.Context(), []string{c.name}, o)
		require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%s: %v", text, err)
		require.ErrorContains(t, err, text)
	}
}

// parquetOf returns a Parquet file of a schema's rows.
func parquetOf(t *testing.T, schema *arrow.Schema, rows string) []byte {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(t, err)
	var out strings.Builder
	w, err := pqarrow.NewFileWriter(schema, &out, nil, pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(b))
	require.NoError(t, w.Close())
	return []byte(out.String())
}

// textsOf reads all rows, as texts of their values with spaces between them.
func textsOf(t *testing.T, rows array.RecordReader) ([]string, error) {
	t.Helper()
	defer rows.Release()
	var out []string
	for rows.Next() {
		b := rows.RecordBatch()
		for i := range int(b.NumRows()) {
			var row []string
			for _, c := range b.Columns() {
				row = append(row, c.ValueStr(i))
			}
			out = append(out, strings.Join(row, " "))
		}
	}
	return out, rows.Err()
}

// spec: stage-132
func TestRemoteFilesAreRead(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	files, o := bucket()
	files.Put("s3://b/in/2.parquet", parquetOf(t, schema, `[{"id": 3, "text": "c"}]`))
	files.Put("s3://b/in/1.parquet", parquetOf(t, schema, `[{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]`))
	o.Budget = budget.New(64 << 20)
	read := func() ([]string, error) {
		found, err := inputs.Find(t.Context(), []string{"s3://b/in/"}, o)
		require.NoError(t, err)
		rows, err := inputs.Open(t.Context(), found, o)
		if err != nil {
			return nil, err
		}
		return textsOf(t, rows)
	}
	got, err := read()
	require.NoError(t, err)
	require.Equal(t, []string{"1 a", "2 b", "3 c"}, got)
	require.Zero(t, o.Budget.Used())

	files.Put("s3://b/in/3.parquet", []byte("no Parquet"))
	_, err = read()
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "s3://b/in/3.parquet cannot be read as a Parquet file")
	require.Zero(t, o.Budget.Used())

	mixed := []inputs.File{{Name: "s3://b/in/1.parquet", Size: store.SizeUnknown}, {Name: "local.parquet"}}
	_, err = inputs.Open(t.Context(), mixed, o)
	require.ErrorContains(t, err, "some files are local")
}
