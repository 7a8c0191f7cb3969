package scale_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/plan/scale"
)

// figures returns the values of a sizing by name.
func figures(t *testing.T, s scale.Sizing) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, f := range s.Figures {
		require.NotContains(t, out, f.Name)
		require.NotEmpty(t, f.How, f.Name)
		out[f.Name] = f.Value
	}
	return out
}

// simple are the facts of a table in 16 files, with one staging table in 16 file groups.
func simple() scale.Facts {
	return scale.Facts{
		Rows: 4_000_000, Exact: true, LanesKeepRows: true, Streams: 64, Lanes: 64, Splits: 16, StepRows: 4096,
		RowBytes: 550, IndexedBytes: 150, TrainingBytes: 100, LaneBytes: 100 << 20,
		Training: scale.Reads{Files: 16, Bytes: 320e6, StreamFiles: 79, StreamBytes: 1580e6},
		Staging:  []scale.Entry{{Name: "history", Groups: 16, Files: 16, Bytes: 96e6, Largest: 6e6, AtOnce: 2, Users: 79}},
	}
}

// The figures of a job, computed by hand.
//
// spec: output-18
func TestByHand(t *testing.T) {
	load := scale.Load{Trainers: 64, Step: 20 * time.Millisecond, Cores: 16, Memory: 64 << 30, Link: 25e9 / 8, ServerPrice: 0.8, RequestPrice: 0.0004, TrafficPrice: 0.01}
	sized, err := load.Of(simple())
	require.NoError(t, err)
	got := figures(t, sized)
	narrow := simple()
	narrow.RowBytes = 8
	least, err := load.Of(narrow)
	require.NoError(t, err)
	require.InDelta(t, 0.29, figures(t, least)["row_cpu"], 1e-9, "the narrowest rows that were measured have 290 bytes")
	near := func(want float64, name string) { t.Helper(); require.InEpsilon(t, want, got[name], 0.005, name) }
	near(64*4096/0.020, "rows_per_second") // 13.1 M
	near(4e6/13_107_200, "epoch_seconds")
	near(0.55, "row_cpu")
	near(2*13.1072*0.55, "cores")         // 14.4
	near(13.1072e6*550*8/1e9, "network")  // 57.7 Gbit/s
	near(57.672/64, "stream_network")     // 0.901
	near(13.1072*0.55/64, "stream_cores") // 0.113
	near(1, "servers_by_cores")           // 14.4 / 16
	near(3, "servers_by_network")         // 57.7 / 22.5
	near(4, "servers")                    // and one more
	near(22, "server_streams")            // 64 / 3
	near(22*104.8576e6+16*4*6e6+22*4*4096*550, "server_budget")
	near(1.25*got["server_budget"]+268.4e6, "server_memory")
	near(16*4*(1-0.24158), "build_sides") // 0.75 to the power of 79 / 16 is 0.24158
	near(1580e6+48.54*6e6, "epoch_read")
	near(2*(79+48.54), "epoch_requests")
	near(16, "loss_streams")
	near(16*(20e6+0.2416*6e6), "loss_read")
	near(3.2, "cost_per_hour")
	near(3.2*0.30518/3600+0.25507*0.0004+4e6*550/1e9*0.01, "cost_per_epoch")
	require.Zero(t, got["later_read"])
	require.Equal(t, 4, sized.Servers)

	// What is given replaces what is estimated, and the weakest basis counts.
	rests := map[string]scale.Basis{}
	load.Row, load.CPU = 1100, 2*time.Microsecond
	again, err := load.Of(simple())
	require.NoError(t, err)
	for _, f := range again.Figures {
		rests[f.Name] = f.Rests
	}
	require.InEpsilon(t, 2*13.1072*2, figures(t, again)["cores"], 0.005)
	require.InEpsilon(t, 2*got["network"], figures(t, again)["network"], 0.005)
	require.Equal(t, []scale.Basis{scale.Given, scale.Given, scale.Given, scale.Metadata, scale.Estimate}, []scale.Basis{rests["cores"], rests["network"], rests["servers_by_network"], rests["epoch_rows"], rests["build_sides"]})
	for _, f := range sized.Figures {
		rests[f.Name] = f.Rests
	}
	require.Equal(t, []scale.Basis{scale.Estimate, scale.Estimate, scale.Estimate}, []scale.Basis{rests["row_cpu"], rests["cores"], rests["network"]}, "row_plain is an estimate")
	load.CPU = 0
	rowGiven, err := load.Of(simple())
	require.NoError(t, err)
	for _, f := range rowGiven.Figures {
		rests[f.Name] = f.Rests
	}
	require.Equal(t, []scale.Basis{scale.Measured, scale.Measured, scale.Estimate}, []scale.Basis{rests["row_cpu"], rests["cores"], rests["servers"]})
}

// Without a description of servers, figures that depend on one are assumed, and there is no cost without prices.
func TestAssumedServers(t *testing.T) {
	sized, err := scale.Load{Trainers: 64, Step: time.Second}.Of(simple())
	require.NoError(t, err)
	require.NotContains(t, figures(t, sized), "cost_per_epoch")
	ofServers := []string{
		"servers_by_cores", "servers_by_network", "servers_by_memory", "servers", "server_streams", "server_budget", "server_memory", "server_slots",
		"cache_budget", "build_sides", "epoch_read", "later_read", "epoch_requests", "storage", "loss_streams", "loss_read",
	}
	for _, f := range sized.Figures {
		require.Equal(t, slices.Contains(ofServers, f.Name), f.Rests == scale.Assumed, "%s rests on %s", f.Name, f.Rests)
	}
	text := sized.String()
	require.LessOrEqual(t, strings.Count(text, "\n"), 40)
	require.Contains(t, text, "rows_per_second")
	require.Contains(t, text, "262144 rows/s")
}

// A stream is not divided among servers, and servers without memory for one stream are of no use.
//
// spec: output-19
func TestImpossibleLoads(t *testing.T) {
	none := simple()
	none.StepRows = 0
	indexed := simple()
	indexed.Indexed = true
	for says, try := range map[string]func() (scale.Sizing, error){
		"scale.rows: missing": func() (scale.Sizing, error) { return scale.Load{Trainers: 64, Step: time.Second}.Of(none) },
		"scale.link: one stream needs 3.6": func() (scale.Sizing, error) {
			return scale.Load{Trainers: 64, Step: 5 * time.Millisecond, Link: 1e8}.Of(simple())
		},
		"scale.step: one stream needs 22.5": func() (scale.Sizing, error) {
			return scale.Load{Trainers: 64, Step: 100 * time.Microsecond, Link: 1e11}.Of(simple())
		},
		"needs 15.8 cores, and uses at most 7": func() (scale.Sizing, error) {
			return scale.Load{Trainers: 64, Step: 100 * time.Microsecond, Link: 1e11}.Of(indexed)
		},
		"scale.memory: a server with one stre": func() (scale.Sizing, error) {
			return scale.Load{Trainers: 64, Step: time.Second, Memory: 400 << 20}.Of(simple())
		},
	} {
		_, err := try()
		require.ErrorContains(t, err, says)
	}
	ample, err := scale.Load{Trainers: 64, Step: time.Second, Memory: 2 << 30}.Of(simple())
	require.NoError(t, err)
	require.Greater(t, figures(t, ample)["servers_by_memory"], 5.0)
}

// The facts of a plan: what streams read, and how large rows are.
func TestFactsOfAPlan(t *testing.T) {
	tables, files := plantest.Mixed()
	e := plantest.Entry()
	p, err := plantest.Joined(plantest.Homefeed(e), tables, files, dataset.Query{Rows: dataset.Rows{Dataset: "home", Lanes: 4}})
	require.NoError(t, err)
	q := dataset.Query{Rows: p.Rows, Reading: dataset.Reading{Shard: dataset.Shard{Of: 2}, GlobalBatchRows: 200, Wire: dataset.WirePlain}}
	f, err := scale.Of(p, q, 7, nil)
	require.NoError(t, err)
	require.Equal(t, p.StoredRows, f.Rows)
	require.Equal(t, []int{2, 4, len(p.Splits)}, []int{f.Streams, f.Lanes, f.Splits})
	require.EqualValues(t, 100, f.StepRows)
	require.False(t, f.Chosen)
	require.True(t, f.LanesKeepRows, "of the stored order")
	require.False(t, f.Indexed)
	require.Equal(t, p.TrainingBytes(), f.Training.Bytes)
	require.LessOrEqual(t, f.Training.Files, f.Training.StreamFiles)
	require.LessOrEqual(t, f.Training.StreamFiles, 2*f.Training.Files)
	require.Len(t, f.Staging, 1)
	use := p.StagingUse(0)
	require.Equal(t, use.Groups, f.Staging[0].Groups)
	require.Equal(t, use.Once, f.Staging[0].Bytes)
	require.LessOrEqual(t, f.Staging[0].Groups, f.Staging[0].Users)

	// A size in the manifests replaces that of the whole file.
	sizes := &plan.ColumnSizes{Training: map[string]int64{}, Staging: []map[string]int64{{}}}
	for _, s := range p.Splits {
		for _, of := range s.Files {
			sizes.Training[of.File.Location] = 1
		}
	}
	f, err = scale.Of(p, q, 0, sizes)
	require.NoError(t, err)
	require.EqualValues(t, f.Training.Files, f.Training.Bytes)
	text, err := json.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
}

// Rows of fixed-width types have the sizes of their types, and texts those of the files beyond that.
func TestSizesOfRows(t *testing.T) {
	tables, files := plantest.Days([]int64{1, 2}, []int64{1, 2})
	p, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{Rows: dataset.Rows{Dataset: "home"}})
	require.NoError(t, err)
	f, err := scale.Of(p, dataset.Query{Rows: p.Rows, Reading: dataset.Reading{Wire: dataset.WireAuto}}, 7, nil)
	require.NoError(t, err)
	require.EqualValues(t, 7, f.StepRows, "the query does not say")
	require.True(t, f.Chosen)
	require.True(t, f.Indexed)
	require.InDelta(t, 16+33.0/8, f.RowBytes, 0.26, "two int64, one nullable int32, and bits of nullable columns")
	require.LessOrEqual(t, f.IndexedBytes, f.RowBytes)

	tables[0].Fields = append(tables[0].Fields, catalog.Field{ID: 9, Name: "text", Type: arrow.BinaryTypes.String})
	p, err = plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{Rows: dataset.Rows{Dataset: "home"}})
	require.NoError(t, err)
	longer, err := scale.Of(p, dataset.Query{Rows: p.Rows, Reading: dataset.Reading{Wire: dataset.WirePlain}}, 7, nil)
	require.NoError(t, err)
	require.Greater(t, longer.RowBytes, f.RowBytes+4)
}

// More servers build more build sides, at most one on each for each stream that needs it.
func TestSpread(t *testing.T) {
	require.InDelta(t, 1, scale.Spread(5, 1), 1e-9)
	require.InDelta(t, 1, scale.Spread(1, 7), 1e-9)
	require.InDelta(t, 1.5, scale.Spread(2, 2), 1e-9)
	f, before := simple(), 0.0
	for n := range 64 {
		now := f.BuildSides(n + 1)
		require.Greater(t, now, before)
		require.LessOrEqual(t, now, 79.0)
		before = now
	}
	require.InDelta(t, 16, f.BuildSides(1), 1e-9)
	require.Equal(t, 8, scale.Slots(1))
	require.Equal(t, 64, scale.Slots(1<<30))
	require.Equal(t, 4096, scale.Slots(1<<40))
}
