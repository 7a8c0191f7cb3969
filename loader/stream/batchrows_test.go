package stream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// sized returns a loader of a dataset whose rows have strings of the given length.
func sized(t *testing.T, text int, limit int64) *loader.Loader {
	t.Helper()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long a:int", "", 60, func(i int) string { return fmt.Sprint(i, i) }).In(t, w)
	loadertest.Rows("features.f", "id:long text:string", "", 60, func(i int) string { return fmt.Sprint(i, " ", strings.Repeat("x", text)) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	return loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, MaxBatchBytes: limit})
}

// TestDefaultBatchRows checks that large rows make small batches if no batch size is
// requested.
//
// spec: wire-7
func TestDefaultBatchRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  int
		query dataset.Query
		least int
		most  int
	}{
		{10, dataset.Query{Rows: dataset.Rows{Dataset: "d"}}, 8192, 8192},
		{10, dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 3}}, 8190, 8190},
		{100_000, dataset.Query{Rows: dataset.Rows{Dataset: "d"}}, 100, 1000},
		{100_000, dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 7}}, 98, 994},
		{100_000, dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Columns: []dataset.Column{{Column: "id"}, {Column: "a"}}}}, 8192, 8192},
		{100_000, dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 5000}}, 5000, 5000},
	} {
		l := sized(t, c.text, 0)
		p, err := l.Plan(t.Context(), c.query)
		require.NoError(t, err)
		rows := p.BatchRows
		require.GreaterOrEqual(t, rows, c.least, "%+v", c)
		require.LessOrEqual(t, rows, c.most, "%+v", c)
		require.Zero(t, rows%max(1, c.query.Lanes))
	}
}

// TestBatchesThatNeverFitAreRefusedWhenPlanned checks that batches that can never fit are refused at
// planning, and others only when they are assembled.
//
// spec: wire-8
func TestBatchesThatNeverFitAreRefusedWhenPlanned(t *testing.T) {
	t.Parallel()
	l := sized(t, 1000, 30_000)
	_, err := l.Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 2000}})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	// A long, an int and the offset of a string.
	require.ErrorContains(t, err, "batch_rows: a batch of 2000 rows takes at least 32000 bytes, more than the server's limit of 30000 (max_batch_bytes); at most 1875 can fit")
	require.Regexp(t, `ask for batch_rows of at most \d+, or for fewer columns`, fault.As(err).Remedy)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 1875, Shard: dataset.Shard{Of: 1}}}
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer s.Release()
	require.False(t, s.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(s.Err()))
	require.ErrorContains(t, s.Err(), "a batch of 60 rows takes")
	_, err = l.Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 2000, Columns: []dataset.Column{{Column: "id"}}}})
	require.NoError(t, err)
}
