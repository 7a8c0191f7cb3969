package joiner

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// One training table (request, at, word) and one staging table (req, at, word,
// rank), of which word and rank go on. The recipe's order and time name
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
		recipe            Recipe
		want              string
		counts            Counts
		fails             string
	}{
		"semi":              {people, facts, Rule{Kind: Semi}, Recipe{}, "7 0 a x 2, 8 0 b - 3", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"semi does not mul": {people, facts, Rule{Kind: Semi, Duplicates: DuplicatesAll}, Recipe{}, "7 0 a x 2, 8 0 b - 3", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"anti":              {people, facts, Rule{Kind: Anti}, Recipe{}, "9 0 c - -, - 0 d - -", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all":               {people, facts, Rule{Duplicates: DuplicatesAll}, Recipe{}, "7 0 a x 2, 7 0 a z 1, 8 0 b - 3, 9 0 c - -, - 0 d - -", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all, inner":        {people, facts, Rule{Kind: Inner, Duplicates: DuplicatesAll}, Recipe{}, "7 0 a x 2, 7 0 a z 1, 8 0 b - 3", Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1}, ""},
		"all, ordered":      {"7 0 a", facts, Rule{Duplicates: DuplicatesAll}, Recipe{OrderBy: []Order{{Column: 3}}}, "7 0 a z 1, 7 0 a x 2", Counts{Rows: 1, Matched: 1, Duplicates: 1}, ""},
		"first, ordered":    {"7 0 a", facts, Rule{Duplicates: DuplicatesFirst}, Recipe{OrderBy: []Order{{Column: 3}}}, "7 0 a z 1", Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"last, ordered":     {"7 0 a", facts, Rule{Duplicates: DuplicatesLast}, Recipe{OrderBy: []Order{{Column: 3}}}, "7 0 a x 2", Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"first, descending": {"7 0 a", facts, Rule{Duplicates: DuplicatesFirst}, Recipe{OrderBy: []Order{{Column: 3, Descending: true}}}, "7 0 a x 2", Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1}, ""},
		"nulls are last":    {"7 0 a", "7 0 x -, 7 0 y 1, 7 0 z 2", Rule{Duplicates: DuplicatesAll}, Recipe{OrderBy: []Order{{Column: 3}}}, "7 0 a y 1, 7 0 a z 2, 7 0 a x -", Counts{Rows: 1, Matched: 1, Duplicates: 1}, ""},
		"nulls are last, descending": {
			"7 0 a", "7 0 x -, 7 0 y 1, 7 0 z 2",
			Rule{Duplicates: DuplicatesAll},
			Recipe{OrderBy: []Order{{Column: 3, Descending: true}}},
			"7 0 a z 2, 7 0 a y 1, 7 0 a x -",
			Counts{Rows: 1, Matched: 1, Duplicates: 1},
			"",
		},
		"ties go by arrival": {
			"7 0 a", "7 0 x 1, 7 0 y 1, 7 0 z 0",
			Rule{Duplicates: DuplicatesLast},
			Recipe{OrderBy: []Order{{Column: 3, Descending: true}}},
			"7 0 a z 0",
			Counts{Rows: 1, Matched: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"the second order column": {
			"7 0 a", "7 0 x 1, 7 0 a 1, 7 0 c 0",
			Rule{Duplicates: DuplicatesAll},
			Recipe{OrderBy: []Order{{Column: 3, Descending: true}, {Column: 2}}},
			"7 0 a a 1, 7 0 a x 1, 7 0 a c 0",
			Counts{Rows: 1, Matched: 1, Duplicates: 1},
			"",
		},
		"default": {
			people, facts,
			Rule{Duplicates: DuplicatesFirst},
			Recipe{Defaults: []arrow.Array{none}},
			"7 0 a x 2, 8 0 b - 3, 9 0 c none -, - 0 d none -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1, Defaulted: 2},
			"",
		},
		"default of dropped rows": {
			people, facts,
			Rule{Kind: Inner, Duplicates: DuplicatesFirst},
			Recipe{Defaults: []arrow.Array{none, nil}},
			"7 0 a x 2, 8 0 b - 3",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"matched": {
			people, facts,
			Rule{Duplicates: DuplicatesFirst},
			Recipe{Matched: "has"},
			"7 0 a x 2 true, 8 0 b - 3 true, 9 0 c - - false, - 0 d - - false",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"overlay, nulls replace": {
			people, facts,
			Rule{Kind: Overlay, Duplicates: DuplicatesFirst, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			Recipe{},
			"7 0 x x 2, 8 0 - - 3, 9 0 c - -, - 0 d - -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"overlay, nulls kept": {
			people, facts,
			Rule{Kind: Overlay, KeepNulls: true, Duplicates: DuplicatesFirst, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			Recipe{},
			"7 0 x x 2, 8 0 b - 3, 9 0 c - -, - 0 d - -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1},
			"",
		},
		"a default overlays nothing": {
			people, facts,
			Rule{Kind: Overlay, Duplicates: DuplicatesFirst, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			Recipe{Defaults: []arrow.Array{none}},
			"7 0 x x 2, 8 0 - - 3, 9 0 c none -, - 0 d none -",
			Counts{Rows: 4, Matched: 2, Missing: 2, NullKeys: 1, Duplicates: 1, Resolved: 1, Defaulted: 2},
			"",
		},
		"overlay with a product": {
			"7 0 a, 9 0 b", facts,
			Rule{Kind: Overlay, Duplicates: DuplicatesAll, Overlays: []OverlayColumn{{Training: 2, Field: 0}}},
			Recipe{},
			"7 0 x x 2, 7 0 z z 1, 9 0 b - -",
			Counts{Rows: 2, Matched: 1, Missing: 1, Duplicates: 1},
			"",
		},
		"time": {
			"7 9 -, 7 10 -, 7 11 -, 7 15 -, 7 16 -, 8 12 -, 7 - -, - 10 -", events,
			Rule{Time: atTime(5, true)},
			Recipe{Time: new(1)},
			"7 9 - - -, 7 10 - a 1, 7 11 - a 1, 7 15 - a 1, 7 16 - - -, 8 12 - e 1, 7 - - - -, - 10 - - -",
			Counts{Rows: 8, Matched: 4, Missing: 4, NullKeys: 1},
			"",
		},
		"time, not exact": {
			"7 10 -, 7 11 -, 7 20 -", events,
			Rule{Time: atTime(10, false)},
			Recipe{Time: new(1)},
			"7 10 - - -, 7 11 - a 1, 7 20 - a 1",
			Counts{Rows: 3, Matched: 2, Missing: 1},
			"",
		},
		"one row of the future": {
			"8 9 -, 8 10 -", events,
			Rule{Kind: Inner, Time: atTime(1<<63-1, true)},
			Recipe{Time: new(1)},
			"8 10 - e 1",
			Counts{Rows: 2, Matched: 1, Missing: 1},
			"",
		},
		"times at the ends of what a number holds": {
			"7 9223372036854775807 -, 7 -9223372036854775808 -", "7 -9223372036854775808 a 1",
			Rule{Time: atTime(1<<63-1, true)},
			Recipe{Time: new(1)},
			"7 9223372036854775807 - - -, 7 -9223372036854775808 - a 1",
			Counts{Rows: 2, Matched: 1, Missing: 1},
			"",
		},
		"several rows of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Time: atTime(100, true)},
			Recipe{Time: new(1)},
			"",
			Counts{},
			"join history: several rows of history have the key request=7 at one time, in files staging-0.parquet and staging-1.parquet; " +
				"set `duplicates: first` or `duplicates: last` for history, or clean the table",
		},
		"the first of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Duplicates: DuplicatesFirst, Time: atTime(100, true)},
			Recipe{Time: new(1), OrderBy: []Order{{Column: 3}}},
			"7 19 - a 1, 7 20 - c 1",
			Counts{Rows: 2, Matched: 2, Duplicates: 1, Resolved: 1},
			"",
		},
		"the last of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Duplicates: DuplicatesLast, Time: atTime(100, true)},
			Recipe{Time: new(1)},
			"7 19 - a 1, 7 20 - c 1",
			Counts{Rows: 2, Matched: 2, Duplicates: 1, Resolved: 1},
			"",
		},
		"all of the latest time": {
			"7 19 -, 7 20 -", events,
			Rule{Duplicates: DuplicatesAll, Time: atTime(100, true)},
			Recipe{Time: new(1)},
			"7 19 - a 1, 7 20 - b 2, 7 20 - c 1",
			Counts{Rows: 2, Matched: 2, Duplicates: 1},
			"",
		},
		"nothing within the tolerance is an error": {
			"7 16 -", events,
			Rule{MissingError: true, Time: atTime(5, true)},
			Recipe{Time: new(1)},
			"",
			Counts{},
			"join history: no row of history is within the tolerance for the key request=7 (file training-0.parquet); " +
				"set `missing: null` or `join: inner` for history, or add the row",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []Strategy{StrategyAuto, StrategyIndex} {
				mem := checked(t)
				training, staging := ruleTables(t, c.training, c.staging)
				c.rule.Name, c.recipe.Name, c.recipe.Strategy = "history", "history", strategy
				r, err := Join(t.Context(), training.input(t, mem, nil, []int{0, 1, 2}), []Probe{{
					Rule: c.rule, Key: []int{0}, Columns: staging.fields[2:], Matched: c.recipe.Matched,
					Side: built(staging.input(t, mem, []int{0}, []int{2, 3}), c.recipe, Options{Memory: mem}),
				}}, Options{Memory: mem})
				require.NoError(t, err)
				got, counts, err := drain(t, r)
				if c.fails != "" {
					require.EqualError(t, err, c.fails)
					require.Equal(t, fault.Invalid, fault.KindOf(err))
					continue
				}
				require.NoError(t, err)
				require.Equal(t, parse(c.want), parse(strings.ReplaceAll(strings.Join(got, ","), null, "-")))
				require.Equal(t, []Counts{c.counts}, counts)
			}
		})
	}
}

// product is a join of one training key with two staging tables that have it
// many times.
func product(t *testing.T, mem memory.Allocator, sizes ...int) (*Reader, error) {
	training := table{name: "training", fields: columns(t, "request long", "word string"), rows: parse("7 a, 8 b, 7 c")}
	var probes []Probe
	for i, n := range sizes {
		staging := table{name: "staging", fields: columns(t, "req long", "n long")}
		for row := range n {
			staging.rows = append(staging.rows, []string{"7", strconv.Itoa(row)})
		}
		name := fmt.Sprintf("level%d", i)
		probes = append(probes, Probe{
			Rule: Rule{Name: name, Duplicates: DuplicatesAll}, Key: []int{0}, Columns: staging.fields[1:],
			Side: built(staging.input(t, mem, []int{0}, []int{1}), Recipe{Name: name}, Options{Memory: mem}),
		})
	}
	return Join(t.Context(), training.input(t, mem, nil, []int{1}), probes, Options{Memory: mem})
}

// spec: join-32, join-33, join-34
func TestProductsAreCut(t *testing.T) {
	r, err := product(t, checked(t), 100, 1, 90)
	require.NoError(t, err)
	defer r.Release()
	var want, got []string
	for _, word := range []string{"a", "b", "c"} {
		if word == "b" {
			want = append(want, "b (null) (null) (null)")
			continue
		}
		for i := range 100 {
			for k := range 90 {
				want = append(want, fmt.Sprintf("%s %d 0 %d", word, i, k))
			}
		}
	}
	for r.Next() {
		require.LessOrEqual(t, r.RecordBatch().NumRows(), int64(16_384))
		got = append(got, text(t, r.RecordBatch())...)
	}
	require.NoError(t, r.Err())
	require.Equal(t, want, got)
}

// A product that nobody could hold is given as far as somebody asks for it.
// spec: join-34
func TestHugeProductsStream(t *testing.T) {
	r, err := product(t, checked(t), 3000, 3000, 3000)
	require.NoError(t, err)
	require.True(t, r.Next())
	require.True(t, r.Next())
	require.EqualValues(t, 16_384, r.RecordBatch().NumRows())
	r.Release()
}

// spec: join-23
func TestCancellationWithinAProduct(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := product(t, checked(t), 300, 300)
	require.NoError(t, err)
	r.join.ctx = ctx
	require.True(t, r.Next())
	cancel()
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), context.Canceled)
	r.Release()
}

// spec: join-27, join-28
func TestTheLastOverlayThatMatchesWins(t *testing.T) {
	mem := checked(t)
	training := table{name: "training", fields: columns(t, "request long", "word string"), rows: parse("1 a, 2 b, 3 c, 4 d")}
	run := func(keep bool) []string {
		var probes []Probe
		for i, cells := range []string{"1 x, 2 x, 3 x", "2 y, 3 -, 5 y"} {
			staging := table{name: "staging", fields: columns(t, "req long", "word string"), rows: parse(cells)}
			name := fmt.Sprintf("level%d", i)
			probes = append(probes, Probe{
				Rule: Rule{Name: name, Kind: Overlay, KeepNulls: keep, Overlays: []OverlayColumn{{Training: 0, Field: 0}}},
				Key:  []int{0}, Columns: staging.fields[1:],
				Side: built(staging.input(t, mem, []int{0}, []int{1}), Recipe{Name: name}, Options{Memory: mem}),
			})
		}
		r, err := Join(t.Context(), training.input(t, mem, nil, []int{1}), probes, Options{Memory: mem})
		require.NoError(t, err)
		rows, _, err := drain(t, r)
		require.NoError(t, err)
		return rows
	}
	require.Equal(t, []string{"x x (null)", "y x y", "(null) x (null)", "d (null) (null)"}, run(false))
	require.Equal(t, []string{"x x (null)", "y x y", "x x (null)", "d (null) (null)"}, run(true))
}

// spec: join-2, join-30
func TestSchemaOfRules(t *testing.T) {
	required := arrow.Field{Name: "word", Type: arrow.BinaryTypes.String}
	schema := func(keep bool) *arrow.Schema {
		training := table{name: "training", fields: []arrow.Field{columns(t, "request long")[0], required}}
		r, err := Join(t.Context(), training.input(t, memory.DefaultAllocator, nil, []int{1}), []Probe{{
			Rule: Rule{Name: "history", Kind: Overlay, KeepNulls: keep, Overlays: []OverlayColumn{{}}},
			Key:  []int{0}, Columns: []arrow.Field{required}, Matched: "has",
		}}, Options{})
		require.NoError(t, err)
		defer r.Release()
		return r.Schema()
	}
	require.True(t, schema(false).Field(0).Nullable, "a null may replace its values")
	require.False(t, schema(true).Field(0).Nullable)
	level := schema(true).Field(1).Type.(*arrow.DictionaryType).ValueType.(*arrow.StructType)
	require.Equal(t, arrow.Field{Name: "has", Type: arrow.FixedWidthTypes.Boolean}, level.Field(1))
}

// spec: join-38
func TestTimeTypes(t *testing.T) {
	cases := map[string]struct{ training, staging, fails string }{
		"longs":         {"long", "long", ""},
		"int and long":  {"int", "long", ""},
		"dates":         {"date", "date", ""},
		"timestamps":    {"timestamp", "timestamp", ""},
		"zone or none":  {"timestamp", "local", "training column at is timestamp[us, tz=UTC] and staging column when is timestamp[us]"},
		"date and long": {"date", "long", "training column at is date32 and staging column when is int64"},
		"text":          {"string", "string", "column at of type utf8 cannot be a time; name a column of dates"},
		"staging text":  {"long", "string", "column when of type utf8 cannot be a time"},
		"decimal":       {"decimal", "decimal", "column at of type decimal(9, 2) cannot be a time"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := checked(t)
			training := table{fields: columns(t, "k long", "at "+c.training), rows: rows{{"1", null}}}
			staging := table{fields: columns(t, "r long", "when "+c.staging), rows: rows{{"1", null}}}
			r, err := Join(t.Context(), training.input(t, mem, nil, []int{0}), []Probe{{
				Rule: Rule{Name: "history", Time: &TimeRule{Column: 1}}, Key: []int{0},
				Side: built(staging.input(t, mem, []int{0}, nil), Recipe{Name: "history", Time: new(1)}, Options{Memory: mem}),
			}}, Options{Memory: mem})
			if err == nil {
				_, _, err = drain(t, r)
			}
			if c.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.fails)
			require.ErrorContains(t, err, "history")
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}

// spec: join-31
func TestOrderOfEveryType(t *testing.T) {
	cases := map[string][]string{
		"int": {"-5", "0", "7"}, "long": {"-5", "0", "7"}, "float": {"-Inf", "-1.5", "0", "2", "+Inf", "NaN"},
		"date": {"1969-01-01", "2026-01-01"}, "timestamp": {"1969-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		"string": {"", "A", "B", "a", "é"}, "binary": {"AA==", "AAA=", "/w=="}, "word": {"AAAAAA==", "fwAAAA==", "gAAAAA=="},
		"decimal": {"-20", "-1.5", "0", "1.25", "3"}, "bool": {"false", "true"},
	}
	for dt, values := range cases {
		t.Run(dt, func(t *testing.T) {
			staging := table{name: "staging", fields: columns(t, "req long", "v "+dt), cuts: []int{1, 1}}
			var want []string
			for i := range values {
				staging.rows = append(staging.rows, []string{"7", values[len(values)-1-i]})
				want = append(want, values[i])
			}
			staging.rows = append(rows{{"7", null}}, staging.rows...)
			training := table{name: "training", fields: columns(t, "request long"), rows: parse("7")}
			for _, descending := range []bool{false, true} {
				mem := checked(t)
				r, err := Join(t.Context(), training.input(t, mem, nil, nil), []Probe{{
					Rule: Rule{Name: "s", Duplicates: DuplicatesAll}, Key: []int{0}, Columns: staging.fields[1:],
					Side: built(staging.input(t, mem, []int{0}, []int{1}), Recipe{Name: "s", OrderBy: []Order{{Column: 1, Descending: descending}}}, Options{Memory: mem}),
				}}, Options{Memory: mem})
				require.NoError(t, err)
				got, _, err := drain(t, r)
				require.NoError(t, err)
				require.Len(t, got, len(values)+1)
				require.Equal(t, null, got[len(values)])
				same := written(t, staging.fields[1].Type, want...)
				for i, v := range got[:len(values)] {
					if descending {
						i = len(values) - 1 - i
					}
					require.Equal(t, same[i], v)
				}
			}
		})
	}
	t.Run("lists have no order", func(t *testing.T) {
		mem := checked(t)
		staging := table{name: "staging", fields: columns(t, "req long", "v longs")}
		_, err := Build(t.Context(), staging.input(t, mem, []int{0}, nil), Recipe{Name: "s", OrderBy: []Order{{Column: 1}}}, Options{Memory: mem})
		require.ErrorContains(t, err, "rows cannot be ordered by column v of type list")
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	})
}

// Every reservation of a side with times, orders, defaults and duplicates may
// fail, and leaves nothing.
// spec: join-20
func TestBudgetOfRules(t *testing.T) {
	mem := checked(t)
	_, staging := ruleTables(t, "", "7 10 a 1, 7 20 b 2, 7 20 c 1, 7 - d 3, 8 10 e 1")
	for _, strategy := range []Strategy{StrategyAuto, StrategyIndex} {
		in, done := staging.input(t, mem, []int{0}, []int{2, 3}), false
		for limit := int64(0); !done; limit += 16 {
			b := budget.New(limit)
			side, err := Build(t.Context(), in, Recipe{
				Name: "s", Matched: "has", Time: new(1), OrderBy: []Order{{Column: 3}},
				Defaults: []arrow.Array{words(t, "none")}, Strategy: strategy,
			}, Options{Memory: mem, Budget: b})
			if err != nil {
				require.Equal(t, fault.Exhausted, fault.KindOf(err))
				require.Zero(t, b.Used())
				continue
			}
			require.Equal(t, b.Used(), side.Bytes())
			require.GreaterOrEqual(t, side.Bytes(), holds(side))
			require.LessOrEqual(t, side.Bytes(), holds(side)+word)
			side.Release()
			require.Zero(t, b.Used())
			done = true
		}
	}
}

func TestBrokenRecipes(t *testing.T) {
	_, staging := ruleTables(t, "", "7 10 a 1")
	training, _ := ruleTables(t, "7 10 a", "")
	cases := map[string]struct {
		change func(*Recipe, *Probe)
		want   string
	}{
		"a default of another type": {func(r *Recipe, _ *Probe) { r.Defaults = []arrow.Array{nil, words(t, "x")} }, "default 1 of s is not one value"},
		"a default of two values":   {func(r *Recipe, _ *Probe) { r.Defaults = []arrow.Array{words(t, "x", "y")} }, "default 0 of s is not one value"},
		"a default of no column":    {func(r *Recipe, _ *Probe) { r.Defaults = []arrow.Array{nil, nil, words(t, "x")} }, "default 2 of s is not one value"},
		"an order that is not there": {
			func(r *Recipe, _ *Probe) { r.OrderBy = []Order{{Column: 9}} }, "position 9 in a stream of 4 columns",
		},
		"a time that is not there":        {func(r *Recipe, _ *Probe) { r.Time = new(-1) }, "position -1"},
		"a training time that is not":     {func(_ *Recipe, p *Probe) { p.Rule.Time = &TimeRule{Column: 5} }, "position 5"},
		"a rule with a time, a side none": {func(_ *Recipe, p *Probe) { p.Rule.Time = &TimeRule{Column: 1} }, "a side without times"},
		"another matched field":           {func(r *Recipe, _ *Probe) { r.Matched = "has" }, "was to be dictionary"},
		"an overlay of a left join":       {func(_ *Recipe, p *Probe) { p.Rule.Overlays = []OverlayColumn{{}} }, "without being an overlay"},
		"an overlay of nothing": {func(_ *Recipe, p *Probe) {
			p.Rule.Kind, p.Rule.Overlays = Overlay, []OverlayColumn{{Training: 3}}
		}, "overlays column 3 of 3 with field 0 of 2"},
		"an overlay with nothing": {func(_ *Recipe, p *Probe) {
			p.Rule.Kind, p.Rule.Overlays = Overlay, []OverlayColumn{{Field: 2}}
		}, "with field 2 of 2"},
		"an overlay of another type": {func(_ *Recipe, p *Probe) {
			p.Rule.Kind, p.Rule.Overlays = Overlay, []OverlayColumn{{Training: 2, Field: 1}}
		}, "training column word is utf8 and s has int64 for it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := checked(t)
			recipe := Recipe{Name: "s"}
			probe := Probe{Rule: Rule{Name: "s"}, Key: []int{0}, Columns: staging.fields[2:]}
			c.change(&recipe, &probe)
			probe.Side = built(staging.input(t, mem, []int{0}, []int{2, 3}), recipe, Options{Memory: mem})
			r, err := Join(t.Context(), training.input(t, mem, nil, []int{0, 1, 2}), []Probe{probe}, Options{Memory: mem})
			if err == nil {
				_, _, err = drain(t, r)
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
