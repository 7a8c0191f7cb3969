package joined_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// nearest finds the row with the greatest key that is at most the key looked up.
type nearest struct{}

func (nearest) Index(_ context.Context, keys []arrow.Array, _ func(int64) error) (joiner.Finder, error) {
	return found{keys: keys[0].(*array.Int64)}, nil
}

type found struct{ keys *array.Int64 }

func (f found) Find(_ context.Context, keys []arrow.Array, rows []int32) error {
	for i := range rows {
		rows[i] = -1
		for row := range f.keys.Len() {
			key := f.keys.Value(row)
			if key <= keys[0].(*array.Int64).Value(i) && (rows[i] < 0 || key > f.keys.Value(int(rows[i]))) {
				rows[i] = int32(row)
			}
		}
	}
	return nil
}

// TestCustomStrategy finds keys in other buckets.
//
// spec: join-43, resolve-21
func TestCustomStrategy(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 30, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(3,id)", 4, func(i int) string { return fmt.Sprint(i*7+5, " ", i) }).In(t, w)
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
		Staging: []dataset.Staging{{Table: "features.f", Strategy: rule.StrategyCustom, Custom: "nearest"}},
	}
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Strategies: map[string]joiner.Custom{"nearest": nearest{}},
	})
	shards, err := scenario.Read(context.Background(), l, loadertest.OneShard(1, 8))
	require.NoError(t, err)
	rows := scenario.Texts(shards[0].Rows())
	require.Len(t, rows, 30)
	for i := range 30 {
		v := "<nil>"
		if i >= 5 {
			v = strconv.Itoa((i - 5) / 7)
		}
		require.True(t, slices.Contains(rows, fmt.Sprintf("[%d %d %s]", i, i, v)), "%d: %v", i, rows)
	}
	require.Equal(t, "custom", shards[0].Report.Staging["f"].Strategy)
}

// TestUnknownStrategy checks that an unregistered strategy is refused at planning, and
// by a loader that opens a plan of another loader.
//
// spec: join-43
func TestUnknownStrategy(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 3, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(3,id)", 4, func(i int) string { return fmt.Sprint(i, " ", i) }).In(t, w)
	with := func(name, known string) *loader.Loader {
		d := dataset.Dataset{
			Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
			Staging: []dataset.Staging{{Table: "features.f", Strategy: rule.StrategyCustom, Custom: name}},
		}
		return loader.New(loader.Options{
			Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Strategies: map[string]joiner.Custom{known: nearest{}},
		})
	}
	_, err := with("nearst", "nearest").Plan(context.Background(), loadertest.OneShard(1, 8))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, `no strategy is registered as "nearst"`)
	require.Equal(t, []fault.Field{{
		Field: "staging[0].strategy", Message: `no strategy is registered as "nearst"`, Nearest: "nearest",
	}}, fault.As(err).Faults)

	p, err := with("nearest", "nearest").Plan(context.Background(), loadertest.OneShard(1, 8))
	require.NoError(t, err)
	_, err = with("nearest", "other").Open(context.Background(), p, loader.StreamOptions{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, `join f: strategy: no strategy is registered as "nearest"`)
}
