package joined

import (
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

func TestStagingInputIdentityCountsEveryField(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, inputOf{
		table: "features.f", pin: dataset.TablePin{UUID: "9c12", Snapshot: 1, Schema: 1}, filter: "v < 3", keys: []int{1, 2},
		read:  []columnOf{{1, []shapeOf{{1, 2, "float32"}}}, {2, []shapeOf{{3, 4, "int64"}}}},
		shown: []shownOf{{1, &valueOf{"int32", true, "5"}}, {2, &valueOf{"string", true, "?"}}},
		name:  "f", matched: "f_matched", orderBy: []joiner.Order{{Column: 1, Descending: true}},
		time: new(1), strategy: rule.StrategyMerge, custom: "mine", arrival: "ab12",
	})
}

// TestIdentitiesFollowTheBuildSpec checks that every field of a build side's spec is in
// the identity of a staging input. It fails for fields that are not listed here.
func TestIdentitiesFollowTheBuildSpec(t *testing.T) {
	t.Parallel()
	five := fiveOf(t)
	bound := resolve.Staging{Pinned: &catalog.Table{Name: "features.f", Pin: dataset.TablePin{UUID: "9c12"}}}
	changes := map[string]func(in *stagingInput){
		"Name":     func(in *stagingInput) { in.spec.Name = "g" },
		"Matched":  func(in *stagingInput) { in.spec.Matched = "m" },
		"OrderBy":  func(in *stagingInput) { in.spec.OrderBy = []joiner.Order{{Column: 1}} },
		"Time":     func(in *stagingInput) { in.spec.Time = new(1) },
		"Strategy": func(in *stagingInput) { in.spec.Strategy = rule.StrategyMerge },
		"Custom":   func(in *stagingInput) { in.bound.Custom = "mine" },
		"Defaults": func(in *stagingInput) { in.shown[0].fallback = five },
		"Arrival":  func(in *stagingInput) { in.arrival = &plan.Arrival{} },
	}
	one := func() *stagingInput {
		v := column{field: catalog.Field{ID: 2, Name: "v"}}
		return &stagingInput{bound: bound, read: columns{v}, shown: []shown{{column: v}}}
	}
	seen := map[string]string{one().identity(): "nothing"}
	for f := range reflect.TypeFor[joiner.BuildSpec]().Fields() {
		require.Contains(t, changes, f.Name, "say how it is part of the identity")
		in := one()
		changes[f.Name](in)
		require.NotContains(t, seen, in.identity(), f.Name)
		seen[in.identity()] = f.Name
	}
}

// fiveOf returns an array that holds a single five.
func fiveOf(t *testing.T) arrow.Array {
	t.Helper()
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(5)
	five := b.NewArray()
	t.Cleanup(five.Release)
	return five
}
