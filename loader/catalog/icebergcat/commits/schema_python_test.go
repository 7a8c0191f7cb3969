package commits_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// PyIceberg sees a column that files got before the schema once the schema is current, and not before.
// It sees the old one when names are swapped back.
//
// spec: write-26, write-32, write-37
func TestPyIcebergReadsSchemas(t *testing.T) {
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to run PyIceberg with; make test-go sets it")
	}
	ask, done := asked(t, python, "testdata/read_schemas.py")
	for version := 1; version <= 3; version++ {
		c := icebergtest.NewWriter(t).Changes(t)
		require.NoError(t, c.Tables.Create(t.Context(), commit.NewTable{
			Table: icebergtest.Events, Version: version, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long", Required: true}, {ID: 2, Name: "score", Type: "long"}},
		}))
		read := func(want string) {
			t.Helper()
			require.Equal(t, want+"\n", ask(c.Dir), "version %d", version)
		}
		old, later := scores(t, c, "old", 1, 10), scores(t, c, "later", 2, 20)
		base, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Add: []commit.DataFile{old}})
		require.NoError(t, err)
		add, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Add: []commit.NewColumn{{ID: 3, Name: "score_new", Type: "long"}}})
		require.NoError(t, err)
		swapped, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: add, Rename: map[int]string{2: "score_before", 3: "score"}})
		require.NoError(t, err)
		change := commit.Change{
			Table: icebergtest.Events, Mode: commit.Rewrite, Base: base.Snapshot, Remove: []string{old.Location}, Add: []commit.DataFile{scores(t, c, "new", 1, 10, 11)},
		}
		if version > 1 {
			change.Add[0].Sequence = 1
		}
		made, err := c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		read("id 1, score 2; 3 schemas; [(1, 10)]; replace")
		require.NoError(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: 0, To: swapped, Head: made.Snapshot}))
		read("id 1, score_before 2, score 3; 3 schemas; [(1, 10, 11)]; replace")
		_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Add: []commit.DataFile{later}})
		require.NoError(t, err)
		read("id 1, score_before 2, score 3; 3 schemas; [(1, 10, 11), (2, 20, None)]; append")
		require.NoError(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: swapped, To: 0}))
		read("id 1, score 2; 3 schemas; [(1, 10), (2, 20)]; append")
	}
	done()
}

// asked starts a Python script that answers each line of its input with a line. It starts once,
// because importing PyIceberg takes longer than what the script does. ask returns the answer with
// its line end, and done ends the script.
func asked(t *testing.T, python, script string) (ask func(line string) string, done func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), python, script) //nolint:gosec // the interpreter of the tests
	var stderr bytes.Buffer
	command.Stderr = &stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	answers := bufio.NewReader(out)
	end := sync.OnceValue(func() error {
		_ = in.Close()
		return command.Wait()
	})
	t.Cleanup(func() { _ = end() })
	ask = func(line string) string {
		t.Helper()
		_, err := fmt.Fprintln(in, line)
		require.NoError(t, err)
		answer, err := answers.ReadString('\n')
		if err != nil {
			_ = end()
			require.NoError(t, err, "%s", stderr.String())
		}
		return answer
	}
	return ask, func() { require.NoError(t, end(), "%s", stderr.String()) }
}

// scores writes a file of one row with an id and other columns, and describes it.
func scores(t *testing.T, c *icebergtest.Changing, name string, values ...int64) commit.DataFile {
	t.Helper()
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}
	var columns []arrow.Array
	out := commit.DataFile{Location: "file://" + filepath.Join(c.Dir, name+".parquet"), Rows: 1, ColumnMetrics: commit.ColumnMetrics{Values: map[int]int64{}, Nulls: map[int]int64{}}}
	var ids []int
	for i, v := range values {
		if i > 0 {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true})
		}
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.Append(v)
		columns, ids = append(columns, b.NewArray()), append(ids, i+1)
		out.Values[i+1], out.Nulls[i+1] = 1, 0
	}
	batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 1)
	reader, err := array.NewRecordReader(batch.Schema(), []arrow.RecordBatch{batch})
	require.NoError(t, err)
	var content bytes.Buffer
	require.NoError(t, parquettest.Write(&content, reader, parquettest.Options{FieldIDs: ids}))
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, name+".parquet"), content.Bytes(), 0o600))
	out.Bytes = int64(content.Len())
	return out
}
