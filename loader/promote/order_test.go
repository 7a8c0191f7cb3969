package promote_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/promote"
)

// pair is a dataset with two entries of one table, which are promoted one after the other.
func pair() dataset.Dataset {
	d := request().Dataset
	d.Staging = append(d.Staging, dataset.Staging{Name: "other", Table: features, Columns: []dataset.Column{{Column: "f", Name: "g"}}})
	return d
}

// change promotes the named entries of pair.
func (r *rig) change(t *testing.T, entries ...string) {
	t.Helper()
	_, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: pair(), Entries: entries})
	require.NoError(t, err)
}

// undo demotes a column.
func (r *rig) undo(t *testing.T, column string) {
	t.Helper()
	_, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{column}})
	require.NoError(t, err)
}

// orders has queries whose order, lanes, windows or rows depend on the files of the training table.
func orders() map[string]dataset.Rows {
	out := map[string]dataset.Rows{
		"stored":          {Lanes: 1},
		"stored in lanes": {Lanes: 3},
		"sampled":         {Lanes: 2, Sample: &dataset.Sample{Rate: 0.5}},
		"requests":        {Lanes: 2, Order: dataset.Shuffled, ShuffleWindow: 4},
	}
	for seed := range int64(4) {
		out[fmt.Sprint("splits ", seed)] = dataset.Rows{Lanes: 2, Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits, Seed: seed}
		out[fmt.Sprint("rows ", seed)] = dataset.Rows{Lanes: 2, Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: 3, ShuffleParts: 2, Seed: seed}
	}
	return out
}

// stream returns the batches of each shard of a query, as texts.
func (r *rig) stream(t *testing.T, d dataset.Dataset, rows dataset.Rows) []string {
	t.Helper()
	rows.Inline = &d
	var out []string
	for shard := range rows.Lanes {
		query := dataset.Query{Rows: rows, Reading: dataset.Reading{Shard: dataset.Shard{Index: shard, Of: rows.Lanes}, BatchRows: 2, Cache: dataset.CacheOff}}
		l := r.loader(t)(&r.tables)
		planned, err := l.Plan(t.Context(), query.Defaults())
		require.NoError(t, err)
		stream, err := l.Open(t.Context(), planned, loader.StreamOptions{})
		require.NoError(t, err)
		for stream.Next() {
			out = append(out, fmt.Sprint("shard ", shard, ": ", stream.RecordBatch().Columns()))
		}
		require.NoError(t, stream.Err())
		stream.Release()
	}
	return out
}

// all reads the queries of orders.
func (r *rig) all(t *testing.T, d dataset.Dataset) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for name, rows := range orders() {
		out[name] = r.stream(t, d, rows)
	}
	return out
}

// A read that begins after a promotion returns the same batches as one that began before, whatever
// was promoted, demoted and promoted again, with deleted rows.
//
// spec: promote-27, order-31, delete-9
func TestPromotionsKeepTheOrder(t *testing.T) {
	for version := 1; version <= 3; version++ {
		t.Run(fmt.Sprintf("format version %d", version), func(t *testing.T) {
			r := newRig(t)
			r.create(t, version)
			switch version {
			case 2:
				deleted{rig: r, of: r.listed(t)[0], name: "a"}.positions(t)
				deleted{rig: r, of: r.listed(t)[2], name: "b"}.equal(t, `[{"row": 0}, {"row": 3}, {"row": 4}]`)
			case 3:
				deleted{rig: r, of: r.listed(t)[0], name: "a"}.vector(t)
			}
			before := r.all(t, pair())
			require.NotEqual(t, before["rows 0"], before["rows 1"])
			for i, step := range []func(){
				func() { r.change(t, "history") },
				func() { r.change(t, "other") },
				func() { r.undo(t, "f") },
				func() { r.change(t, "history") },
				func() { r.undo(t, "f") },
				func() { r.undo(t, "g") },
				func() { r.change(t, "other", "history") },
			} {
				step()
				require.Equal(t, before, r.all(t, pair()), "step %d", i)
			}
		})
	}
}
