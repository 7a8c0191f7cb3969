package inputs_test

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/internal/fault"
)

// arrowOf returns an Arrow file or stream with the numbers from 0.
func arrowOf(t *testing.T, rows int, file bool) []byte {
	t.Helper()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		b.Append(int64(i))
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(rows))
	var out bytes.Buffer
	if file {
		w, err := ipc.NewFileWriter(&out, ipc.WithSchema(schema))
		require.NoError(t, err)
		require.NoError(t, w.Write(batch))
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	require.NoError(t, w.Write(batch))
	require.NoError(t, w.Close())
	return out.Bytes()
}

// spec: stage-137
func TestArrowFilesAreRead(t *testing.T) {
	files, o := bucket()
	files.Put("s3://b/n=1/a.arrow", arrowOf(t, 20_000, true))
	files.Put("s3://b/n=2/b.feather", arrowOf(t, 2, false))
	files.Put("s3://b/n=3/c", arrowOf(t, 1, true))
	files.Put("s3://b/n=4/d", arrowOf(t, 0, false))
	got, err := rowsIn(t, typed(t, "", o))
	require.NoError(t, err)
	require.Len(t, got, 20_003)
	require.Equal(t, []string{"19999 1", "0 2", "1 2", "0 3"}, got[19_999:])

	cut := arrowOf(t, 2, true)
	files.Put("s3://b/n=2/b.feather", cut[:len(cut)-20])
	_, err = rowsIn(t, typed(t, "", o))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "read s3://b/n=2/b.feather")
}

// spec: stage-138
func TestUnknownFormatsAreRefused(t *testing.T) {
	for _, content := range []string{"", "id\n1\n", "FEA1xxxx", "PK\x03\x04"} {
		files, o := bucket()
		files.Put("s3://b/rows.xlsx", []byte(content))
		_, err := rowsIn(t, typed(t, "", o))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "s3://b/rows.xlsx has an unknown format")
		require.Contains(t, fault.As(err).Remedy, ".csv.gz")
	}
}

// spec: stage-139
func TestStandardInputIsRead(t *testing.T) {
	read := func(content, format string) ([]string, error) {
		o := typed(t, "id: long", inputs.Options{Stdin: bufio.NewReader(strings.NewReader(content)), StdinFormat: format})
		files, err := inputs.Find(t.Context(), []string{"-"}, o)
		require.NoError(t, err)
		rows, err := inputs.Open(t.Context(), files, o)
		if err != nil {
			return nil, err
		}
		return textsOf(t, rows)
	}
	got, err := read(string(arrowOf(t, 2, false)), "arrow")
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1"}, got)
	got, err = read("id\n7\n", "csv")
	require.NoError(t, err)
	require.Equal(t, []string{"7"}, got)
	got, err = read("{\"id\": 8}\n", "jsonl")
	require.NoError(t, err)
	require.Equal(t, []string{"8"}, got)
	for text, content := range map[string]string{
		"standard input has an unknown format": "id\n7\n",
		"Parquet cannot be read from":          "PAR1xxxx",
		"bytes come after the end":             strings.Repeat(string(arrowOf(t, 2, false)), 2),
	} {
		_, err = read(content, "")
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, text)
	}
}
