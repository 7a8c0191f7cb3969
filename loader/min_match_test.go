package loader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// written is a table of rows in text form.
type written struct {
	name, header, spec string // several specs, as "bucket(4,id); bucket(2,id)", each hold all rows
	rows               int
	row                func(i int) string
}

// in creates the table.
func (x written) in(t *testing.T, w *scenario.World) {
	t.Helper()
	fields, err := scenario.Fields(x.header)
	require.NoError(t, err)
	var specs []catalog.Spec
	for text := range strings.SplitSeq(x.spec, "; ") {
		s, err := scenario.Spec(text, fields)
		require.NoError(t, err)
		specs = append(specs, s)
	}
	table, err := w.NewTable(x.name, fields, specs...)
	require.NoError(t, err)
	text := make([]string, x.rows)
	for i := range text {
		text[i] = x.row(i)
	}
	b, err := scenario.Rows(fields, text)
	require.NoError(t, err)
	defer b.Release()
	for i := range specs {
		require.NoError(t, w.Append(table, i, b, 0))
	}
}

// TestMinMatch has 12,000 training rows in 4 buckets, nine in ten of which match. The
// failure is detected after the fourth range, when 10,000 rows have been checked.
//
// spec: join-64
func TestMinMatch(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	w.BatchRows = 1000
	t.Cleanup(w.Release)
	const rows = 12_000
	written{"ml.train", "id:long item:long", "bucket(4,id)", rows, func(i int) string { return fmt.Sprint(i, " ", i) }}.in(t, w)
	written{"features.f", "id:long v:long", "bucket(4,id)", rows * 9 / 10, func(i int) string { return fmt.Sprint(i, " ", i) }}.in(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	for _, filter := range []string{"", "item >= 0"} { // with row counts that the plan knows, and with unknown ones
		for share, fails := range map[float64]bool{0: false, 0.5: false, 0.9: false, 0.9001: true, 1: true} {
			d.Staging[0].MinMatch = share
			d := d.Defaults()
			l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
			q := one(1, 500)
			q.Filter = dataset.MustFilter(filter)
			s := open(t, l, q)
			given := int64(0)
			for s.Next() {
				given += s.RecordBatch().NumRows()
			}
			err := s.Err()
			s.Release()
			if !fails {
				require.NoError(t, err)
				require.Equal(t, int64(rows), given)
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, fmt.Sprintf("10800 of 12000 training rows match f: 0.9000, where min_match asks for %g", share))
			require.Contains(t, fault.As(err).Remedy, "min_match of f")
			require.Less(t, given, int64(rows), "the rows of the last range are not all given")
			require.Greater(t, given, int64(rows/2), "and it is not judged before")
		}
	}
	// A resumed stream counts only what it reads itself and checks nothing below 10,000
	// rows.
	d.Staging[0].MinMatch = 1
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := one(1, 500)
	s := open(t, l, q)
	for range 20 {
		require.True(t, s.Next())
	}
	q.Cursor = dataset.Cursors{s.Cursor()}
	s.Release()
	rest, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	require.Equal(t, int64(2000), rest[0].Report.Rows)
}
