package stream_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// TestScansKnowTheSteps: scans of training rows know where the steps of their lane end, in every range, after a cursor and
// after the stream was parked. If rows may be dropped, they do not.
func TestScansKnowTheSteps(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(16,id)", 160, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	var sources []plan.Source
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			sources = append(sources, source)
			return w.Scan(ctx, source, columns)
		},
	})
	const step = 7
	// read returns the scanned sources and the stream's cursor after some steps.
	read := func(q dataset.Query, steps, park int) ([]plan.Source, loader.Planned, dataset.Cursor) {
		sources = nil
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		s, err := l.Open(t.Context(), p, loader.StreamOptions{})
		require.NoError(t, err)
		defer s.Release()
		for i := range steps {
			if !s.Next() {
				require.NoError(t, s.Err())
				break
			}
			if i == park {
				require.True(t, s.Park(false))
			}
		}
		return sources, p, s.Cursor()
	}
	// check compares each source of the lane with the rows before it, which are counted from a row of the lane.
	check := func(p loader.Planned, sources []plan.Source, origin int64) {
		require.NotEmpty(t, sources)
		for _, source := range sources {
			before := int64(0)
			for _, r := range p.Lanes[0].Ranges {
				of := p.Training(r)
				if of.Files[0].File.Location == source.Files[0].File.Location {
					before += source.Files[0].Ordinal - of.Files[0].Ordinal
					break
				}
				before += r.To - r.From
			}
			require.Equal(t, int64(step), source.StepRows)
			require.Equal(t, ((before-origin)%step+step)%step, source.Begun)
		}
	}
	got, p, _ := read(loadertest.OneShard(1, step), 1000, -1)
	require.GreaterOrEqual(t, len(got), len(p.Lanes[0].Ranges))
	check(p, got, 0)
	got, p, _ = read(loadertest.OneShard(1, step), 1000, 3)
	check(p, got, 0)
	_, _, cursor := read(loadertest.OneShard(1, 5), 4, -1)
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: step, Cursor: dataset.Cursors{cursor}}}
	got, p, _ = read(q, 1000, 2)
	check(p, got, 20)

	q = loadertest.OneShard(1, step)
	q.Filter = datasettest.Filter("item >= 0")
	got, _, _ = read(q, 1000, -1)
	for _, source := range got {
		require.Zero(t, source.StepRows)
	}
}
