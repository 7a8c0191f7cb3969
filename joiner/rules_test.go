package joiner

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
)

// One training table (request, at, word) and one staging table (req, at, word,
// rank), of which word and rank go on. The spec's order and time name
// positions in the staging table.
func ruleTables(t *testing.T, training, staging string) (table, table) {
	return table{name: "training", fields: columns(t, "request long", "at long", "word string"), rows: parse(training), cuts: twos(training)},
		table{name: "staging", fields: columns(t, "req long", "at long", "word string", "rank long"), rows: parse(staging), cuts: twos(staging)}
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
	atTime := func(tolerance int64, exact bool) *TimeRule {
		return &TimeRule{Column: 1, Tolerance: tolerance, Exact: exact}
	}
	cases := map[string]struct {
		training, staging string
		rule              Rule
		spec              BuildSpec
		want              string
		counts            Counts
		fails             string
	}{
		"semi":              {people, facts, Rule{Kind: rule.Semi}, BuildSpec{}, "7 0 a x 2, 8 0 b - 3", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"semi does not mul": {people, facts, Rule{Kind: rule.Semi, Duplicates: rule.DuplicatesAll}, BuildSpec{}, "7 0 a x 2, 8 0 b - 3", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"anti":              {people, facts, Rule{Kind: rule.Anti}, BuildSpec{}, "9 0 c - -, - 0 d - -", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all":               {people, facts, Rule{Duplicates: rule.DuplicatesAll}, BuildSpec{}, "7 0 a x 2, 7 0 a z 1, 8 0 b - 3, 9 0 c - -, - 0 d - -", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all, inner":        {people, facts, Rule{Kind: rule.Inner, Duplicates: rule.DuplicatesAll}, BuildSpec{}, "7 0 a x 2, 7 0 a z 1, 8 0 b - 3", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all, ordered":      {"7 0 a", facts, Rule{Duplicates: rule.DuplicatesAll}, BuildSpec{OrderBy: []Order{{Column: 3}}}, "7 0 a z 1, 7 0 a x 2", Counts{Rows: 1, Matched: 1, Duplicates: 1}, ""},
		"first, ordered":    {"7 0 a", facts, Rule{Duplicates: rule.DuplicatesFirst}, BuildSpec{OrderBy: []Order{{Column: 3}}}, "7 0 a z 1", Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"last, ordered":     {"7 0 a", facts, Rule{Duplicates: rule.DuplicatesLast}, BuildSpec{OrderBy: []Order{{Column: 3}}}, "7 0 a x 2", Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"first, descending": {"7 0 a", facts, Rule{Duplicates: rule.DuplicatesFirst}, BuildSpec{OrderBy: []Order{{Column: 3, Descending: true}}}, "7 0 a x 2", Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"nulls are last":    {"7 0 a", "7 0 x -, 7 0 y 1, 7 0 z 2", Rule{Duplicates: rule.DuplicatesAll}, BuildSpec{OrderBy: []Order{{Column: 3}}}, "7 0 a y 1, 7 0 a z 2, 7 0 a x -", Counts{Rows: 1, Matched: 1, Duplicates: 1}, ""},
		"nulls are last, descending": {
			"7 0 a", "7 0 x -, 7 0 y 1, 7 0 z 2",
			Rule{Duplicates: rule.DuplicatesAll},
			BuildSpec{OrderBy: []Order{{Column: 3, Descending: true}}},
			"7 0 a z 2, 7 0 a y 1, 7 0 a x -",
			Counts{Rows: 1, Matched: 1, Duplicates: 1},
			"",
		},
		"ties go by arrival": {
			"7 0 a", "7 0 x 1, 7 0 y 1, 7 0 z 0",
			Rule{Duplicates: rule.DuplicatesLast},
			BuildSpec{OrderBy: []Order{{Column: 3, Descending: true}}},
			"7 0 a z 0",
			Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"the second order column": {
			"7 0 a", "7 0 x 1, 7 0 a 1, 7 0 c 0",
			Rule{Duplicates: rule.DuplicatesAll},
			BuildSpec{OrderBy: []Order{{Column: 3, Descending: true}, {Column: 2}}},
			"7 0 a a 1, 7 0 a x 1, 7 0 a c 0",
			Counts{Rows: 1, Matched: 1, Duplicates: 1},
			"",
		},
		"default": {
			people, facts,
			Rule{Duplicates: rule.DuplicatesFirst},
			BuildSpec{Defaults: []arrow.Array{none}},
			"7 0 a x 2, 8 0 b - 3, 9 0 c none -, - 0 d none -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1, Defaulted: 2},
			"",
		},
		"default of dropped rows": {
			people, facts,
			Rule{Kind: rule.Inner, Duplicates: rule.DuplicatesFirst},
			BuildSpec{Defaults: []arrow.Array{none, nil}},
			"7 0 a x 2, 8 0 b - 3",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"matched": {
			people, facts,
			Rule{Duplicates: rule.DuplicatesFirst},
			BuildSpec{Matched: "has"},
			"7 0 a x 2 true, 8 0 b - 3 true, 9 0 c - - false, - 0 d - - false",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"overlay, nulls replace": {
			people, facts,
			Rule{Kind: rule.Overlay, Duplicates: rule.DuplicatesFirst, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			BuildSpec{},
			"7 0 x x 2, 8 0 - - 3, 9 0 c - -, - 0 d - -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"overlay, nulls kept": {
			people, facts,
			Rule{Kind: rule.Overlay, Nulls: rule.NullsKeep, Duplicates: rule.DuplicatesFirst, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			BuildSpec{},
			"7 0 x x 2, 8 0 b - 3, 9 0 c - -, - 0 d - -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"a default overlays nothing": {
			people, facts,
			Rule{Kind: rule.Overlay, Duplicates: rule.DuplicatesFirst, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			BuildSpec{Defaults: []arrow.Array{none}},
			"7 0 x x 2, 8 0 - - 3, 9 0 c none -, - 0 d none -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1, Defaulted: 2},
			"",
		},
		"overlay with a product": {
			"7 0 a, 9 0 b", facts,
			Rule{Kind: rule.Overlay, Duplicates: rule.DuplicatesAll, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			BuildSpec{},
			"7 0 x x 2, 7 0 z z 1, 9 0 b - -",
			Counts{Rows: 2, Matched: 1, Missing: 1, Duplicates: 1},
			"",
		},
		"time": {
			"7 9 -, 7 10 -, 7 11 -, 7 15 -, 7 16 -, 8 12 -, 7 - -, - 10 -", events,
			Rule{Time: atTime(5, true)},
			BuildSpec{Time: new(1)},
			"7 9 - - -, 7 10 - a 1, 7 11 - a 1, 7 15 - a 1, 7 16 - - -, 8 12 - e 1, 7 - - - -, - 10 - - -",
			Counts{Rows: 8, Matched: 4, Missing: 4, NullKeys: 1},
			"",
		},
		"time, not exact": {
			"7 10 -, 7 11 -, 7 20 -", events,
			Rule{Time: atTime(10, false)},
			BuildSpec{Time: new(1)},
			"7 10 - - -, 7 11 - a 1, 7 20 - a 1",
			Counts{Rows: 3, Matched: 2, Missing: 1},
			"",
		},
		"one row of the future": {
			"8 9 -, 8 10 -", events,
			Rule{Kind: rule.Inner, Time: atTime(1<<63-1, true)},
			BuildSpec{Time: new(1)},
			"8 10 - e 1",
			Counts{Rows: 2, Matched: 1, Missing: 1},
			"",
		},
		"times at the ends of what a number holds": {
			"7 9223372036854775807 -, 7 -9223372036854775808 -", "7 -9223372036854775808 a 1",
			Rule{Time: atTime(1<<63-1, true)},
			BuildSpec{Time: new(1)},
			"7 9223372036854775807 - - -, 7 -9223372036854775808 - a 1",
			Counts{Rows: 2, Matched: 1, Missing: 1},
			"",
		},
		"several rows of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Time: atTime(100, true)},
			BuildSpec{Time: new(1)},
			"",
			Counts{},
			"join history: several rows of history have the key request=7 at one time, in files staging-0.parquet and staging-1.parquet; " +
				"set `duplicates: first` or `duplicates: last` for history, or clean the table",
		},
		"the first of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Duplicates: rule.DuplicatesFirst, Time: atTime(100, true)},
			BuildSpec{Time: new(1), OrderBy: []Order{{Column: 3}}},
			"7 19 - a 1, 7 20 - c 1",
			Counts{Rows: 2, Matched: 2, Duplicates: 1, Resolved: 1},
			"",
		},
		"the last of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Duplicates: rule.DuplicatesLast, Time: atTime(100, true)},
			BuildSpec{Time: new(1)},
			"7 19 - a 1, 7 20 - c 1",
			Counts{Rows: 2, Matched: 2, Duplicates: 1, Resolved: 1},
			"",
		},
		"all of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Duplicates: rule.DuplicatesAll, Time: atTime(100, true)},
			BuildSpec{Time: new(1)},
			"7 19 - a 1, 7 20 - b 2, 7 20 - c 1",
			Counts{Rows: 2, Matched: 2, Duplicates: 1},
			"",
		},
		"nothing within the tolerance is an error": {
			"7 16 -", events,
			Rule{Missing: rule.MissingError, Time: atTime(5, true)},
			BuildSpec{Time: new(1)},
			"",
			Counts{},
			"join history: no row of history is within the tolerance for the key request=7 (file training-0.parquet); " +
				"set `missing: null` or `join: inner` for history, or add the row",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []rule.Strategy{rule.StrategyAuto, rule.StrategyIndex} {
				opts := Options{Memory: checked(t)}
				training, staging := ruleTables(t, c.training, c.staging)
				c.rule.Name, c.spec.Strategy = "history", strategy
				probe := staging.probe(t, 2, c.rule, c.spec, opts)
				r, err := Join(t.Context(), training.input(t, opts.Memory, nil, []int{0, 1, 2}), []Probe{probe}, opts)
				require.NoError(t, err)
				comesTo(t, r, c.want, c.counts, c.fails)
			}
		})
	}
}

// spec: join-27, join-28
func TestTheLastOverlayThatMatchesWins(t *testing.T) {
	opts := Options{Memory: checked(t)}
	training := table{name: "training", fields: columns(t, "request long", "word string"), rows: parse("1 a, 2 b, 3 c, 4 d")}
	run := func(nulls rule.Nulls) []string {
		var probes []Probe
		for i, cells := range []string{"1 x, 2 x, 3 x", "2 y, 3 -, 5 y"} {
			staging := table{name: "staging", fields: columns(t, "req long", "word string"), rows: parse(cells)}
			one := Rule{Name: fmt.Sprintf("level%d", i), Kind: rule.Overlay, Nulls: nulls, Overlays: []OverlayColumn{{Training: 0, Field: 0}}}
			probes = append(probes, staging.probe(t, 1, one, BuildSpec{}, opts))
		}
		r, err := Join(t.Context(), training.input(t, opts.Memory, nil, []int{1}), probes, opts)
		require.NoError(t, err)
		rows, _, err := drain(t, r)
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
		training := table{name: "training", fields: []arrow.Field{columns(t, "request long")[0], required}}
		r, err := Join(t.Context(), training.input(t, memory.DefaultAllocator, nil, []int{1}), []Probe{{
			Rule: Rule{Name: "history", Kind: rule.Overlay, Nulls: nulls, Overlays: []OverlayColumn{{}}},
			Key:  []int{0}, Columns: []arrow.Field{required}, Matched: "has",
		}}, Options{})
		require.NoError(t, err)
		defer r.Release()
		return r.Schema()
	}
	require.True(t, schema(rule.NullsReplace).Field(0).Nullable, "a null may replace its values")
	require.False(t, schema(rule.NullsKeep).Field(0).Nullable)
	level := schema(rule.NullsKeep).Field(1).Type.(*arrow.DictionaryType).ValueType.(*arrow.StructType)
	require.Equal(t, arrow.Field{Name: "has", Type: arrow.FixedWidthTypes.Boolean}, level.Field(1))
}
