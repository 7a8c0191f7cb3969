package foreign_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// many returns files with row groups of one row, and their ids.
func many(t *testing.T) (files, ids []string) {
	t.Helper()
	for i := range 5 {
		var rows []string
		for k := range i * 7 {
			id := strconv.Itoa(i*100 + k)
			rows, ids = append(rows, `{"id": `+id+`, "text": "`+strings.Repeat(id, 50)+`"}`), append(ids, id)
		}
		files = append(files, write(t, fields("id", "text"), "["+strings.Join(rows, ",")+"]"))
	}
	return files, ids
}

// Row groups that are read at the same time come in their order, whatever memory there is.
//
// spec: stage-46, stage-56
func TestRowGroupsThatAreReadAheadComeInOrder(t *testing.T) {
	files, want := many(t)
	for _, bytes := range []int64{1 << 30, 1 << 20, 150 << 10} {
		for _, threads := range []int{0, 2, 8} {
			limit := budget.New(bytes)
			ctx, entered := limit.Enter(t.Context(), "test")
			r, err := foreign.Open(ctx, files, foreign.Options{Budget: limit, Threads: threads})
			require.NoError(t, err)
			var got []string
			for r.Next() {
				b := r.RecordBatch()
				for row := range int(b.NumRows()) {
					got = append(got, b.Column(0).ValueStr(row))
					require.Equal(t, strings.Repeat(b.Column(0).ValueStr(row), 50), b.Column(1).ValueStr(row))
				}
			}
			require.NoError(t, r.Err())
			r.Release()
			entered.Release()
			require.Equal(t, want, got)
			require.Zero(t, limit.Used())
			require.LessOrEqual(t, limit.Peak(), bytes)
		}
	}
}

// An error comes after the rows before it, and everything is released, also when the caller stops early.
//
// spec: stage-46
func TestErrorsComeAfterTheRowsBefore(t *testing.T) {
	files, want := many(t)
	damaged := write(t, fields("id", "text"), `[{"id": 1, "text": "`+strings.Repeat("x", 1000)+`"}]`)
	content, err := os.ReadFile(damaged) //nolint:gosec // a test's own file
	require.NoError(t, err)
	copy(content[4:], strings.Repeat("\xff", 30))
	require.NoError(t, os.WriteFile(damaged, content, 0o600)) //nolint:gosec // a test's own file
	for _, c := range []struct {
		last string
		kind fault.Kind
	}{{damaged, fault.Corrupt}, {damaged + ".missing", fault.NotFound}, {write(t, fields("id"), `[]`), fault.Invalid}} {
		limit := budget.New(1 << 30)
		r, err := foreign.Open(t.Context(), append(files, c.last, files[1]), foreign.Options{Budget: limit, Threads: 4})
		require.NoError(t, err)
		rows := int64(0)
		for r.Next() {
			rows += r.RecordBatch().NumRows()
		}
		require.EqualValues(t, len(want), rows)
		require.Equal(t, c.kind.String(), fault.KindOf(r.Err()).String())
		r.Release()
		require.Zero(t, limit.Used())

		r, err = foreign.Open(t.Context(), append(files, c.last), foreign.Options{Budget: limit, Threads: 4})
		require.NoError(t, err)
		require.True(t, r.Next())
		r.Release()
		require.Zero(t, limit.Used())
	}
}
