package loader

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

func TestPlansAreKnownByAllTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	pin := dataset.TablePin{UUID: "9c12", Snapshot: 1, Schema: 1}
	digesttest.EveryFieldCounts(t, planOf{
		name: "d", dataset: "77", pins: []dataset.TablePin{pin, {UUID: "1b4e", Snapshot: 7, Schema: 2}},
		columns: []dataset.Column{{Column: "a", Name: "b", First: 1, Last: 1, As: "int"}},
		dense:   []dataset.Dense{{Name: "f", Columns: []dataset.Column{{Column: "a"}}, Fill: new(float32)}},
		filter:  "a = 1", sample: "{}", since: 1, order: dataset.Shuffled, shuffle: dataset.ShuffleSplits, window: 1, algorithm: 1, seed: 1, epoch: 1, lanes: 1, requests: true,
	})
}

// TestPlanKeysFollowTheQuery: a field that is added to a query belongs to its
// plan, or is listed here as one that does not.
func TestPlanKeysFollowTheQuery(t *testing.T) {
	t.Parallel()
	relation := &resolve.Relation{
		Dataset: dataset.Dataset{Name: "d"}, Training: &catalog.Table{Pin: dataset.TablePin{UUID: "9c12", Snapshot: 1}},
	}
	notOfThePlan := []string{
		"Shard", "Every", "BatchRows", "GlobalBatchRows", "Tail", "Limit", "Count", "Wire", "Endpoints", "Cursor", // of the reading
		"Dataset", "Inline", "Snapshots", // the relation has what they say
	}
	changed := map[string]any{
		"Columns": []dataset.Column{{Column: "a"}}, "Dense": []dataset.Dense{{Name: "f"}}, "Filter": dataset.MustFilter("a = 1"), "Sample": &dataset.Sample{Rate: 0.5},
		"Order": dataset.Shuffled, "Shuffle": dataset.ShuffleSplits, "ShuffleWindow": int64(1), "Algorithm": 2, "Seed": int64(1), "Epoch": int64(1), "Lanes": 2, "Since": int64(1), "BatchRequests": 1,
	}
	seen := map[string]string{planKey(relation, dataset.Query{}): "nothing"}
	for f := range reflect.TypeFor[dataset.Query]().Fields() {
		if slices.Contains(notOfThePlan, f.Name) {
			continue
		}
		require.Contains(t, changed, f.Name, "say whether a plan depends on it")
		var q dataset.Query
		reflect.ValueOf(&q).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(changed[f.Name]))
		key := planKey(relation, q)
		require.NotContains(t, seen, key, f.Name)
		seen[key] = f.Name
	}
}

// What a plan is said to hold is no less than what it holds, as its memory is
// bounded by what is said.
func TestPlanBytes(t *testing.T) {
	const files = 20_000
	for _, columns := range []int{0, 1, 3} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p := &plan.Plan{Splits: []plan.Split{{Files: make([]plan.FileRange, files)}}}
		for i := range p.Splits[0].Files {
			f := &p.Splits[0].Files[i].File
			f.Location = fmt.Sprintf("file:///warehouse/ml.db/impressions/data/day=2026-10-01/request_id_bucket=7/00007-%08d-9c12d441-03fe-4693-9a96-a0705ddf69c1-00001.parquet", i)
			f.Partition = []any{int64(20_000 + i), int64(i), strings.Repeat("x", 20)}
			for c := range columns {
				if f.Ranges == nil {
					f.Ranges = map[int]expr.Range{}
				}
				f.Ranges[c] = expr.Constant(expr.Text(fmt.Sprint("value ", i)), 10)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), planBytes(p), "with the ranges of %d columns", columns)
	}
}
