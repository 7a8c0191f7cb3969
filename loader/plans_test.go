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
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

func TestPlanKeyCountsEveryField(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, planInputs{
		name: "d", rows: "77", withheld: []string{"0:1"}, entries: allEntries, promoted: []string{"s"},
		columns: dataset.Selection{
			Columns: []dataset.Column{{Column: "a", Name: "b", First: 1, Last: 1, As: "int"}},
			Dense:   []dataset.Dense{{Name: "f", Columns: []dataset.Column{{Column: "a"}}, Fill: new(float32)}},
		},
	})
}

// TestPlanKeyHasTheDatasetAndThePins checks that the key covers the dataset and the
// pins of the relation. The query's rows enter the key by their digest, of which
// loader/dataset tests each field.
func TestPlanKeyHasTheDatasetAndThePins(t *testing.T) {
	t.Parallel()
	relation := func(d dataset.Dataset, pins ...dataset.TablePin) *resolve.Relation {
		r := &resolve.Relation{Dataset: d, Training: &catalog.Table{Pin: pins[0]}}
		for _, pin := range pins[1:] {
			r.Staging = append(r.Staging, resolve.Staging{Staging: dataset.Staging{Name: "s"}, Pinned: &catalog.Table{Pin: pin}})
		}
		return r
	}
	one, other := dataset.TablePin{UUID: "9c12", Snapshot: 1}, dataset.TablePin{UUID: "9c12", Snapshot: 2}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d"}}
	seeded := dataset.Query{Rows: dataset.Rows{Dataset: "d", Seed: 1}}
	narrow := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Columns: []dataset.Column{{Column: "a"}}}}
	shuffled := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, Lanes: 2}}
	newest := shuffled
	newest.Algorithm = plan.Algorithm
	promoted := relation(dataset.Dataset{Name: "d"}, one, one)
	promoted.Staging[0].Promoted = []resolve.PromotedColumn{{}}
	keys := []string{
		planKey(promoted, q, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one), q, readEntries),
		planKey(relation(dataset.Dataset{Name: "e"}, one), q, readEntries),
		planKey(relation(dataset.Dataset{Name: "d", Key: []string{"k"}}, one), q, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, other), q, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one, one), q, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one, other), q, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one), seeded, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one), narrow, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one), q, allEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one), shuffled, readEntries),
		planKey(relation(dataset.Dataset{Name: "d"}, one), newest, readEntries),
	}
	slices.Sort(keys)
	require.Len(t, slices.Compact(keys), 12)
	full := dataset.Query{Rows: datasettest.Cursor(t).Rows}
	for field := range reflect.TypeFor[dataset.Rows]().Fields() {
		other := full
		reflect.ValueOf(&other.Rows).Elem().FieldByIndex(field.Index).SetZero()
		ofRelation := slices.Contains([]string{"Dataset", "Inline", "With", "Pin"}, field.Name)
		require.Equal(t, ofRelation, planKey(relation(dataset.Dataset{}, one), full, readEntries) == planKey(relation(dataset.Dataset{}, one), other, readEntries), "the plan key and %s", field.Name)
	}
	inline := dataset.Query{Rows: dataset.Rows{Inline: &dataset.Dataset{}}, Reading: dataset.Reading{BatchRows: 7}}
	require.Equal(t, planKey(relation(dataset.Dataset{}, one), dataset.Query{}, readEntries), planKey(relation(dataset.Dataset{}, one), inline, readEntries), "the relation has the dataset")
}

// TestPlanBytes checks that the estimated memory of a plan is at least its actual
// memory, since the estimate limits the cache.
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
