package joiner_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// One training table (request, at, word) and one staging table (req, at, word, rank), of which
// word and rank are in the result. The spec's order and time are positions in the staging
// table.
func ruleTables(t *testing.T, training, staging string) (joinertest.Table, joinertest.Table) {
	return joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long", "at long", "word string"), Rows: joinertest.Parse(training), Cuts: joinertest.Twos(training)},
		joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "req long", "at long", "word string", "rank long"), Rows: joinertest.Parse(staging), Cuts: joinertest.Twos(staging)}
}

func words(t *testing.T, values ...string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, v := range values {
		require.NoError(t, b.AppendValueFromString(v))
	}
	return b.NewArray()
}

// spec: join-16, join-26, join-27, join-28, join-29, join-30, join-31, join-32, join-33, join-35, join-36, join-37, join-39
func TestRules(t *testing.T) {
	const (
		people = "7 0 a, 8 0 b, 9 0 c, - 0 d"
		facts  = "7 0 x 2, 5 0 y 1, 7 0 z 1, 8 0 - 3"
		events = "7 10 a 1, 7 20 b 2, 7 20 c 1, 7 - d 3, 8 10 e 1"
	)
	none := words(t, "none")
	atTime := func(tolerance int64, exact bool) *joiner.TimeRule {
		return &joiner.TimeRule{Column: 1, Tolerance: tolerance, Exact: exact}
	}
	cases := map[string]struct {
		training, staging string
		rule              joiner.Rule
		spec              joiner.BuildSpec
		want              string
		counts            joiner.Counts
		fails             string
	}{
		"semi":              {people, facts, joiner.Rule{Kind: rule.Semi}, joiner.BuildSpec{}, "7 0 a x 2, 8 0 b - 3", joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"semi does not mul": {people, facts, joiner.Rule{Kind: rule.Semi, Duplicates: rule.DuplicatesAll}, joiner.BuildSpec{}, "7 0 a x 2, 8 0 b - 3", joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"anti":              {people, facts, joiner.Rule{Kind: rule.Anti}, joiner.BuildSpec{}, "9 0 c - -, - 0 d - -", joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all":               {people, facts, joiner.Rule{Duplicates: rule.DuplicatesAll}, joiner.BuildSpec{}, "7 0 a x 2, 7 0 a z 1, 8 0 b - 3, 9 0 c - -, - 0 d - -", joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all, inner":        {people, facts, joiner.Rule{Kind: rule.Inner, Duplicates: rule.DuplicatesAll}, joiner.BuildSpec{}, "7 0 a x 2, 7 0 a z 1, 8 0 b - 3", joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all, ordered":      {"7 0 a", facts, joiner.Rule{Duplicates: rule.DuplicatesAll}, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3}}}, "7 0 a z 1, 7 0 a x 2", joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1}, ""},
		"first, ordered":    {"7 0 a", facts, joiner.Rule{Duplicates: rule.DuplicatesFirst}, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3}}}, "7 0 a z 1", joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"last, ordered":     {"7 0 a", facts, joiner.Rule{Duplicates: rule.DuplicatesLast}, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3}}}, "7 0 a x 2", joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"first, descending": {"7 0 a", facts, joiner.Rule{Duplicates: rule.DuplicatesFirst}, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3, Descending: true}}}, "7 0 a x 2", joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"nulls are last":    {"7 0 a", "7 0 x -, 7 0 y 1, 7 0 z 2", joiner.Rule{Duplicates: rule.DuplicatesAll}, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3}}}, "7 0 a y 1, 7 0 a z 2, 7 0 a x -", joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1}, ""},
		"nulls are last, descending": {
			"7 0 a", "7 0 x -, 7 0 y 1, 7 0 z 2",
			joiner.Rule{Duplicates: rule.DuplicatesAll},
			joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3, Descending: true}}},
			"7 0 a z 2, 7 0 a y 1, 7 0 a x -",
			joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1},
			"",
		},
		"ties go by arrival": {
			"7 0 a", "7 0 x 1, 7 0 y 1, 7 0 z 0",
			joiner.Rule{Duplicates: rule.DuplicatesLast},
			joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3, Descending: true}}},
			"7 0 a z 0",
			joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"the second order column": {
			"7 0 a", "7 0 x 1, 7 0 a 1, 7 0 c 0",
			joiner.Rule{Duplicates: rule.DuplicatesAll},
			joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3, Descending: true}, {Column: 2}}},
			"7 0 a a 1, 7 0 a x 1, 7 0 a c 0",
			joiner.Counts{Rows: 1, Matched: 1, Duplicates: 1},
			"",
		},
		"default": {
			people, facts,
			joiner.Rule{Duplicates: rule.DuplicatesFirst},
			joiner.BuildSpec{Defaults: []arrow.Array{none}},
			"7 0 a x 2, 8 0 b - 3, 9 0 c none -, - 0 d none -",
			joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1, Defaulted: 2},
			"",
		},
		"default of dropped rows": {
			people, facts,
			joiner.Rule{Kind: rule.Inner, Duplicates: rule.DuplicatesFirst},
			joiner.BuildSpec{Defaults: []arrow.Array{none, nil}},
			"7 0 a x 2, 8 0 b - 3",
			joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"matched": {
			people, facts,
			joiner.Rule{Duplicates: rule.DuplicatesFirst},
			joiner.BuildSpec{Matched: "has"},
			"7 0 a x 2 true, 8 0 b - 3 true, 9 0 c - - false, - 0 d - - false",
			joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"overlay, nulls replace": {
			people, facts,
			joiner.Rule{Kind: rule.Overlay, Duplicates: rule.DuplicatesFirst, Overlays: []joiner.OverlayColumn{{Training: 2, Field: 0}}},
			joiner.BuildSpec{},
			"7 0 x x 2, 8 0 - - 3, 9 0 c - -, - 0 d - -",
			joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"overlay, nulls kept": {
			people, facts,
			joiner.Rule{Kind: rule.Overlay, Nulls: rule.NullsKeep, Duplicates: rule.DuplicatesFirst, Overlays: []joiner.OverlayColumn{{Training: 2, Field: 0}}},
			joiner.BuildSpec{},
			"7 0 x x 2, 8 0 b - 3, 9 0 c - -, - 0 d - -",
			joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"a default overlays nothing": {
			people, facts,
			joiner.Rule{Kind: rule.Overlay, Duplicates: rule.DuplicatesFirst, Overlays: []joiner.OverlayColumn{{Training: 2, Field: 0}}},
			joiner.BuildSpec{Defaults: []arrow.Array{none}},
			"7 0 x x 2, 8 0 - - 3, 9 0 c none -, - 0 d none -",
			joiner.Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1, Defaulted: 2},
			"",
		},
		"overlay with a product": {
			"7 0 a, 9 0 b", facts,
			joiner.Rule{Kind: rule.Overlay, Duplicates: rule.DuplicatesAll, Overlays: []joiner.OverlayColumn{{Training: 2, Field: 0}}},
			joiner.BuildSpec{},
			"7 0 x x 2, 7 0 z z 1, 9 0 b - -",
			joiner.Counts{Rows: 2, Matched: 1, Missing: 1, Duplicates: 1},
			"",
		},
		"time": {
			"7 9 -, 7 10 -, 7 11 -, 7 15 -, 7 16 -, 8 12 -, 7 - -, - 10 -", events,
			joiner.Rule{Time: atTime(5, true)},
			joiner.BuildSpec{Time: new(1)},
			"7 9 - - -, 7 10 - a 1, 7 11 - a 1, 7 15 - a 1, 7 16 - - -, 8 12 - e 1, 7 - - - -, - 10 - - -",
			joiner.Counts{Rows: 8, Matched: 4, Missing: 4, NullKeys: 1},
			"",
		},
		"time, not exact": {
			"7 10 -, 7 11 -, 7 20 -", events,
			joiner.Rule{Time: atTime(10, false)},
			joiner.BuildSpec{Time: new(1)},
			"7 10 - - -, 7 11 - a 1, 7 20 - a 1",
			joiner.Counts{Rows: 3, Matched: 2, Missing: 1},
			"",
		},
		"one row of the future": {
			"8 9 -, 8 10 -", events,
			joiner.Rule{Kind: rule.Inner, Time: atTime(1<<63-1, true)},
			joiner.BuildSpec{Time: new(1)},
			"8 10 - e 1",
			joiner.Counts{Rows: 2, Matched: 1, Missing: 1},
			"",
		},
		"times at the ends of what a number holds": {
			"7 9223372036854775807 -, 7 -9223372036854775808 -", "7 -9223372036854775808 a 1",
			joiner.Rule{Time: atTime(1<<63-1, true)},
			joiner.BuildSpec{Time: new(1)},
			"7 9223372036854775807 - - -, 7 -9223372036854775808 - a 1",
			joiner.Counts{Rows: 2, Matched: 1, Missing: 1},
			"",
		},
		"several rows of the latest time": {
			"7 19 -, 7 20 -", events,
			joiner.Rule{Time: atTime(100, true)},
			joiner.BuildSpec{Time: new(1)},
			"",
			joiner.Counts{},
			"join history: several rows of history have the key request=7 with the same time, in files staging-0.parquet and staging-1.parquet; " +
				"set `duplicates: first` or `duplicates: last` for history, or clean the table",
		},
		"the first of the latest time": {
			"7 19 -, 7 20 -", events,
			joiner.Rule{Duplicates: rule.DuplicatesFirst, Time: atTime(100, true)},
			joiner.BuildSpec{Time: new(1), OrderBy: []joiner.Order{{Column: 3}}},
			"7 19 - a 1, 7 20 - c 1",
			joiner.Counts{Rows: 2, Matched: 2, Duplicates: 1, Resolved: 1},
			"",
		},
		"the last of the latest time": {
			"7 19 -, 7 20 -", events,
			joiner.Rule{Duplicates: rule.DuplicatesLast, Time: atTime(100, true)},
			joiner.BuildSpec{Time: new(1)},
			"7 19 - a 1, 7 20 - c 1",
			joiner.Counts{Rows: 2, Matched: 2, Duplicates: 1, Resolved: 1},
			"",
		},
		"all of the latest time": {
			"7 19 -, 7 20 -", events,
			joiner.Rule{Duplicates: rule.DuplicatesAll, Time: atTime(100, true)},
			joiner.BuildSpec{Time: new(1)},
			"7 19 - a 1, 7 20 - b 2, 7 20 - c 1",
			joiner.Counts{Rows: 2, Matched: 2, Duplicates: 1},
			"",
		},
		"nothing within the tolerance is an error": {
			"7 16 -", events,
			joiner.Rule{Missing: rule.MissingError, Time: atTime(5, true)},
			joiner.BuildSpec{Time: new(1)},
			"",
			joiner.Counts{},
			"join history: no row of history is within the tolerance for the key request=7 (file training-0.parquet); " +
				"set `missing: null` or `join: inner` for history, or add the row",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []rule.Strategy{rule.StrategyAuto, rule.StrategyIndex} {
				opts := joiner.Options{Memory: joinertest.Checked(t)}
				training, staging := ruleTables(t, c.training, c.staging)
				c.rule.Name, c.spec.Strategy = "history", strategy
				probe := staging.Probe(t, 2, c.rule, c.spec, opts)
				r, err := joiner.Join(t.Context(), training.Input(t, opts.Memory, nil, []int{0, 1, 2}), []joiner.Probe{probe}, opts)
				require.NoError(t, err)
				joinertest.ComesTo(t, r, c.want, c.counts, c.fails)
			}
		})
	}
}

// spec: join-27, join-28
func TestLastMatchingOverlayWins(t *testing.T) {
	opts := joiner.Options{Memory: joinertest.Checked(t)}
	training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long", "word string"), Rows: joinertest.Parse("1 a, 2 b, 3 c, 4 d")}
	run := func(nulls rule.Nulls) []string {
		var probes []joiner.Probe
		for i, cells := range []string{"1 x, 2 x, 3 x", "2 y, 3 -, 5 y"} {
			staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "req long", "word string"), Rows: joinertest.Parse(cells)}
			one := joiner.Rule{Name: fmt.Sprintf("table%d", i), Kind: rule.Overlay, Nulls: nulls, Overlays: []joiner.OverlayColumn{{Training: 0, Field: 0}}}
			probes = append(probes, staging.Probe(t, 1, one, joiner.BuildSpec{}, opts))
		}
		r, err := joiner.Join(t.Context(), training.Input(t, opts.Memory, nil, []int{1}), probes, opts)
		require.NoError(t, err)
		rows, _, err := joinertest.Drain(t, r)
		require.NoError(t, err)
		return rows
	}
	require.Equal(t, []string{"x x (null)", "y x y", "(null) x (null)", "d (null) (null)"}, run(rule.NullsReplace))
	require.Equal(t, []string{"x x (null)", "y x y", "x x (null)", "d (null) (null)"}, run(rule.NullsKeep))
}

// spec: join-2, join-30
func TestSchemaOfRules(t *testing.T) {
	required := arrow.Field{Name: "word", Type: arrow.BinaryTypes.String}
	schema := func(nulls rule.Nulls) *arrow.Schema {
		training := joinertest.Table{Name: "training", Fields: []arrow.Field{joinertest.Columns(t, "request long")[0], required}}
		r, err := joiner.Join(t.Context(), training.Input(t, memory.DefaultAllocator, nil, []int{1}), []joiner.Probe{{
			Rule: joiner.Rule{Name: "history", Kind: rule.Overlay, Nulls: nulls, Overlays: []joiner.OverlayColumn{{}}},
			Key:  []int{0}, Columns: []arrow.Field{required}, Matched: "has",
		}}, joiner.Options{})
		require.NoError(t, err)
		defer r.Release()
		return r.Schema()
	}
	require.True(t, schema(rule.NullsReplace).Field(0).Nullable, "a null may replace its values")
	require.False(t, schema(rule.NullsKeep).Field(0).Nullable)
	column := schema(rule.NullsKeep).Field(1).Type.(*arrow.DictionaryType).ValueType.(*arrow.StructType)
	require.Equal(t, arrow.Field{Name: "has", Type: arrow.FixedWidthTypes.Boolean}, column.Field(1))
}
