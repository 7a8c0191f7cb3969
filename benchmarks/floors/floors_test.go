package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// TestMain lets the test's own program be the processes of a run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-role" {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "floors:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// All ways deliver what was drawn, to both clients.
func TestRun(t *testing.T) {
	results := t.TempDir()
	python := os.Getenv("PENSTOCK_PYTHON")
	require.NoError(t, run(t.Context(), []string{
		"-quick", "-rows", "40000", "-batch-rows", "256", "-python", python, "-script", "client.py", "-results", results,
	}))
	written, err := filepath.Glob(filepath.Join(results, "*-floors.json"))
	require.NoError(t, err)
	require.Len(t, written, 1)
	text, err := os.ReadFile(written[0])
	require.NoError(t, err)
	var found struct {
		Batches int            `json:"batches"`
		Ways    []*measurement `json:"ways"`
	}
	require.NoError(t, json.Unmarshal(text, &found))
	require.Equal(t, 7, found.Batches)
	expected := 0
	for _, w := range ways() {
		expected += 2
		if w.python && python != "" {
			expected += 2
		}
	}
	require.Len(t, found.Ways, expected)
	for _, m := range found.Ways {
		require.Len(t, m.Turns, 1, m.Way)
		require.Positive(t, m.Turns[0].Seconds, m.Way)
	}
}

func TestBatchesHaveTheShapeOfT(t *testing.T) {
	const rows = 1000
	forms, err := draw(2, rows, 1)
	require.NoError(t, err)
	size := map[string]int{}
	for name, form := range forms {
		require.Len(t, form.batches, 2, name)
		for _, b := range form.batches {
			require.EqualValues(t, rows, b.NumRows(), name)
		}
		one := newStreamWriter(form.schema, func(part []byte) { size[name] += len(part) })
		require.NoError(t, one.batch(form.at(0)))
	}
	require.Len(t, forms[plain].schema.Fields(), 29)
	require.Len(t, forms[indexed].schema.Fields(), 19)
	require.InDelta(t, 550, size[plain]/rows, 25, "bytes of a row; T has 2.2 GB in 4,000,000 rows")
	require.InDelta(t, 150, size[indexed]/rows, 25)

	b := forms[indexed].at(0)
	column, ok := b.Column(18).(*array.Dictionary)
	require.True(t, ok)
	staging, ok := column.Dictionary().(*array.Struct)
	require.True(t, ok)
	for i := range staging.NumField() {
		require.True(t, staging.Field(i).IsNull(0), "row 0 is that of rows without a match")
		for row := range rows {
			at := column.GetValueIndex(row)
			require.Equal(t, forms[plain].at(0).Column(18+i).ValueStr(row), staging.Field(i).ValueStr(at))
		}
	}
}

// A server delivers the batches of files, under the names that it is given.
func TestFormsOfFiles(t *testing.T) {
	drawn, err := draw(2, 20, 1)
	require.NoError(t, err)
	s := settings{sizes: sizes{batches: 3, rows: 20}, forms: map[string]string{}}
	for name, form := range drawn {
		s.forms["my "+name] = filepath.Join(t.TempDir(), name)
		f, err := os.Create(s.forms["my "+name])
		require.NoError(t, err)
		writer := ipc.NewWriter(f, ipc.WithSchema(form.schema))
		for _, b := range form.batches {
			require.NoError(t, writer.Write(b))
		}
		require.NoError(t, errors.Join(writer.Close(), f.Close()))
	}
	one, err := s.server()
	require.NoError(t, err)
	require.Empty(t, one.expected)
	require.Len(t, readyLoader{one.forms, one.batches}.Datasets(), 2)
	for name, form := range drawn {
		sent, err := form.total(3)
		require.NoError(t, err)
		read, err := one.forms["my "+name].total(3)
		require.NoError(t, err)
		require.Equal(t, sent, read)
		p, err := one.pass(request{Way: "one process: copied once", Form: "my " + name})
		require.NoError(t, err)
		require.EqualValues(t, 60, p.Rows)
		require.Positive(t, p.Bytes)
	}

	s.forms["gone"] = filepath.Join(t.TempDir(), "gone")
	_, err = s.server()
	require.ErrorContains(t, err, "load "+s.forms["gone"])
	require.Error(t, run(t.Context(), []string{"-form", "a"}))
}

func TestTotalsSeeEveryColumn(t *testing.T) {
	forms, err := draw(1, 500, 1)
	require.NoError(t, err)
	for name, form := range forms {
		whole, err := form.total(1)
		require.NoError(t, err)
		b := form.at(0)
		for i, column := range b.Columns() {
			columns := append([]arrow.Array(nil), b.Columns()...)
			columns[i] = batch.Nulls(column.DataType(), column.Len(), memory.DefaultAllocator)
			if column.DataType().ID() == arrow.DICTIONARY {
				continue // the fields of its values are the columns of the other form
			}
			var altered totals
			require.NoError(t, altered.add(array.NewRecordBatch(b.Schema(), columns, b.NumRows())))
			require.NotEqual(t, whole, altered, "%s: %s", name, b.ColumnName(i))
		}
	}
}

func TestWrongTotalsAreAnError(t *testing.T) {
	sent := totals{Rows: 3, Ints: 4, Floats: 5}
	one := turns{offer: offer{Expected: map[string]totals{plain: sent}}}
	m := &measurement{Way: "a way", Form: plain, Client: inGo}
	require.NoError(t, one.check(m, pass{totals: sent}, true))
	require.NoError(t, one.check(m, pass{totals: totals{Rows: 3}}, false))
	require.ErrorContains(t, one.check(m, pass{totals: totals{Rows: 3}}, true), "a way, plain, Go: received")
	require.ErrorContains(t, one.check(m, pass{totals: totals{Rows: 2}}, false), "received")
}

func TestReportsOfOtherRowsAreAnError(t *testing.T) {
	r := received{metadata: []byte(`{"report": {"rows": 3}}`)}
	require.NoError(t, r.check(3))
	require.ErrorContains(t, r.check(2), "2 rows were received")
	require.ErrorContains(t, (&received{metadata: []byte(`{}`)}).check(0), "0 rows were received")
}

// A stream that is cut anywhere is an error, in memory and on a connection.
func TestCutStreamsAreErrors(t *testing.T) {
	forms, err := draw(1, 20, 1)
	require.NoError(t, err)
	var all bytes.Buffer
	one := newStreamWriter(forms[indexed].schema, func(part []byte) { all.Write(part) })
	require.NoError(t, one.batch(forms[indexed].at(0)))
	read := func(from messages) (int64, error) {
		c := &consumer{sum: true}
		err := c.all(ipc.NewReaderFromMessageReader(from))
		return c.Rows, err
	}
	for n := prefix + 1; n < all.Len(); n += 101 {
		cut := all.Bytes()[:n:n]
		rows, err := read(inMemory(cut))
		require.False(t, err == nil && rows > 0, n)
		var count int64
		rows, err = read(overStream(bytes.NewReader(cut), &count))
		require.False(t, err == nil && rows > 0, n)
	}
	rows, err := read(inMemory(all.Bytes()))
	require.NoError(t, err)
	require.EqualValues(t, 20, rows)
}

func TestAnswersHaveErrors(t *testing.T) {
	var out bytes.Buffer
	lines := bytes.NewBufferString(`{"way": "a", "form": "plain"}` + "\n" + `{"way": "b"}` + "\n")
	require.NoError(t, answer(lines, &out, func(r request) (pass, error) {
		if r.Way == "a" {
			return pass{}, io.ErrUnexpectedEOF
		}
		return pass{Bytes: 7}, nil
	}))
	answers := json.NewDecoder(&out)
	var one pass
	require.NoError(t, answers.Decode(&one))
	require.Equal(t, "a, plain: unexpected EOF", one.Error)
	require.NoError(t, answers.Decode(&one))
	require.EqualValues(t, 7, one.Bytes)
}

func TestTableHasMediansAndRatiosOfTheSameRound(t *testing.T) {
	first := &measurement{Way: "first", Form: plain, Client: inGo, Turns: []turn{{Seconds: 1, Server: 1, Client: 1}, {Seconds: 10, Server: 1, Client: 1}, {Seconds: 2, Server: 1, Client: 1}}}
	second := &measurement{Way: "second", Form: plain, Client: inGo, Turns: []turn{{Seconds: 0.5, Server: 1}, {Seconds: 5, Server: 1}, {Seconds: 1, Server: 1}}}
	within := &measurement{Way: "within", Form: plain, Client: none, Turns: []turn{{Seconds: 0.25, Server: 0.5}, {Seconds: 2.5, Server: 0.5}, {Seconds: 0.5, Server: 0.5}}}
	var out strings.Builder
	table(&out, plain, []*measurement{first, second, within, {Form: indexed, Way: "other"}})
	require.Contains(t, out.String(), "| first | Go | 2.00 (1.00 to 10.00) | 1.00 | 1.00 | 1.00 | 1.00 |")
	require.Contains(t, out.String(), "| second | Go | 1.00 (0.50 to 5.00) | 1.00 | 0.00 | 0.50 | 0.50 |")
	require.Contains(t, out.String(), "| within |  | 0.50 (0.25 to 2.50) | 0.50 | 0.00 | 0.25 | 0.25 |")
	require.NotContains(t, out.String(), "other |")
}
