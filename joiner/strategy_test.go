package joiner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// spec: join-41, join-44
func TestStrategyInUse(t *testing.T) {
	cases := map[string]struct {
		fields, rows string // of the staging table; the key is all but the last column
		sorted       bool
	}{
		"ascending":                 {"a long", "1 x, 2 x, 2 y, 7 x", true},
		"one row":                   {"a long", "1 x", true},
		"no rows":                   {"a long", "", true},
		"negative numbers":          {"a long", "-9223372036854775808 x, -1 x, 0 x, 9223372036854775807 x", true},
		"descending":                {"a long", "2 x, 1 x", false},
		"the last row is not":       {"a long", "1 x, 2 x, 3 x, 1 x", false},
		"nulls first":               {"a long", "- x, - x, 1 x, 2 x", true},
		"nulls last":                {"a long", "1 x, 2 x, - x", true},
		"nulls on both ends":        {"a long", "- x, 1 x, 2 x, - x", true},
		"nulls between":             {"a long", "1 x, - x, 2 x", false},
		"only nulls":                {"a long", "- x, - x", true},
		"text by bytes":             {"a string", "A x, B x, a x, é x", true},
		"text by letters":           {"a string", "a x, A x", false},
		"dates":                     {"a date", "1969-12-31 x, 1970-01-01 x", true},
		"decimals":                  {"a decimal", "-20 x, -1.5 x, 0 x, 1.25 x, 300 x", true},
		"decimals the wrong way":    {"a decimal", "-1.5 x, -20 x", false},
		"two columns":               {"a long,b string", "-1 z x, 2 a x, 2 ab x, 2 b x, 3 a x", true},
		"a short string, a number":  {"a string,b long", "a 300 x, a 301 x, ab -5 x, ab 1 x, b 0 x", true},
		"the second column is not":  {"a string,b long", "a 301 x, a 300 x", false},
		"strings with zeros":        {"a binary,b binary", "AA== AQ== x, AAA= AA== x, AAE= AA== x, AQ== AA== x", true},
		"strings with zeros, wrong": {"a binary,b binary", "AAA= AA== x, AA== AQ== x", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for strategy, want := range map[rule.Strategy]string{rule.StrategyAuto: "merge", rule.StrategyIndex: "index", rule.StrategyMerge: "merge", rule.StrategyZip: "zip"} {
				mem := joinertest.Checked(t)
				fields := joinertest.Columns(t, append(strings.Split(c.fields, ","), "v string")...)
				staging := joinertest.Table{Name: "s", Fields: fields, Rows: joinertest.Parse(c.rows), Cuts: joinertest.Twos(c.rows)}
				key := make([]int, len(fields)-1)
				for i := range key {
					key[i] = i
				}
				built, err := joiner.Build(t.Context(), staging.Input(t, mem, key, nil), joiner.BuildSpec{Name: "s", Strategy: strategy}, joiner.Options{Memory: mem})
				require.NoError(t, err)
				if !c.sorted {
					want = "index"
				}
				require.Equal(t, want, built.Strategy())
				built.Release()
			}
		})
	}
}

// Bytes of composite keys are ordered as the values are.
// spec: join-41
func TestKeysAreOrderedAsTheirValues(t *testing.T) {
	all := joinertest.Families(t)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		built := joinertest.Staging{Table: joinertest.Table{Fields: []arrow.Field{joinertest.Field("id", arrow.PrimitiveTypes.Int64)}}}
		var of []joinertest.Family
		for i := range 1 + r.IntN(3) {
			of = append(of, joinertest.OneOf(r, all))
			built.Fields, built.Key = append(built.Fields, joinertest.Field(fmt.Sprint("k", i), of[i].Types[0])), append(built.Key, i+1)
		}
		built.Rows = slices.DeleteFunc(joinertest.RandomRows(r, 30, of), func(row []string) bool { return slices.Contains(row, joinertest.Null) })
		built.Sort()
		batch := joinertest.Record(t, memory.DefaultAllocator, arrow.NewSchema(built.Fields, nil), built.Rows)
		for row := 1; row < len(built.Rows); row++ {
			want := -1
			if slices.Equal(built.Rows[row-1][1:], built.Rows[row][1:]) {
				want = 0
			}
			got, err := joiner.CompareKeys(batch, built.Key, int32(row-1), int32(row))
			require.NoError(t, err)
			require.Equal(t, want, got, "%v and %v", built.Rows[row-1], built.Rows[row])
		}
	}
}

// nearest is a custom strategy: it finds the staging row with the greatest key that is not
// above the training row's.
type nearest struct {
	shift  int32 // added to every row found
	failed error
}

type nearestFinder struct {
	keys  []int64
	rows  []int32 // in the order of their keys
	shift int32
}

func (n nearest) Index(_ context.Context, keys []arrow.Array, grow func(int64) error) (joiner.Finder, error) {
	if n.failed != nil {
		return nil, n.failed
	}
	column := keys[0].(*array.Int64)
	if err := grow(int64(4 * column.Len())); err != nil {
		return nil, err
	}
	f := &nearestFinder{keys: column.Int64Values(), shift: n.shift}
	for row := range column.Len() {
		if column.IsValid(row) {
			f.rows = append(f.rows, int32(row))
		}
	}
	slices.SortStableFunc(f.rows, func(a, b int32) int { return int(f.keys[a] - f.keys[b]) })
	return f, nil
}

func (f *nearestFinder) Find(_ context.Context, keys []arrow.Array, found []int32) error {
	column := keys[0].(*array.Int64)
	for i := range found {
		if column.IsNull(i) {
			found[i] = 1 << 30 // ignored
			continue
		}
		at, _ := slices.BinarySearchFunc(f.rows, column.Value(i)+1, func(row int32, key int64) int { return int(f.keys[row] - key) })
		found[i] = -1
		if at > 0 {
			found[i] = f.rows[at-1] + f.shift
		}
	}
	return nil
}

// spec: join-43, join-44
func TestCustomStrategy(t *testing.T) {
	run := func(t *testing.T, spec joiner.BuildSpec, rule joiner.Rule, limit int64) ([]string, []joiner.Counts, error) {
		mem, b := joinertest.Checked(t), budget.New(limit)
		spec.Name, rule.Name = "s", "s"
		training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "k long"), Rows: joinertest.Parse("12, 9, -, 1, 20, 31"), Cuts: []int{2, 2}}
		staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "r long", "v string"), Rows: joinertest.Parse("20 c, - x, 10 b, 2 a"), Cuts: []int{1, 2}}
		opts := joiner.Options{Memory: mem, Budget: b}
		r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{0}), []joiner.Probe{{
			Rule: rule, Key: []int{0}, Columns: staging.Fields[1:],
			BuildSide: func(ctx context.Context) (joiner.Probeable, error) {
				built, err := joiner.Build(ctx, staging.Input(t, mem, []int{0}, []int{1}), spec, opts)
				if err != nil {
					return nil, err
				}
				require.Equal(t, "custom", built.Strategy())
				require.Equal(t, b.Used(), built.Bytes())
				return built, nil
			},
		}}, opts)
		require.NoError(t, err)
		rows, counts, err := joinertest.Drain(t, r)
		require.Zero(t, b.Used())
		return rows, counts, err
	}
	rows, counts, err := run(t, joiner.BuildSpec{Custom: nearest{}}, joiner.Rule{}, 1<<20)
	require.NoError(t, err)
	require.Equal(t, []string{"12 b", "9 a", "(null) (null)", "1 (null)", "20 c", "31 c"}, rows)
	require.Equal(t, []joiner.Counts{{Rows: 6, Matched: 4, Missing: 2, NullKeys: 1}}, counts)

	_, _, err = run(t, joiner.BuildSpec{Custom: nearest{shift: 2}}, joiner.Rule{}, 1<<20)
	require.ErrorContains(t, err, "a custom strategy returned row 4 of 4")
	require.Equal(t, fault.Internal, fault.KindOf(err))
	_, _, err = run(t, joiner.BuildSpec{Custom: nearest{shift: -4}}, joiner.Rule{}, 1<<20)
	require.ErrorContains(t, err, "a custom strategy returned row -2 of 4")
	broken := errors.New("broken")
	_, _, err = run(t, joiner.BuildSpec{Custom: nearest{failed: broken}}, joiner.Rule{}, 1<<20)
	require.ErrorIs(t, err, broken)
	_, _, err = run(t, joiner.BuildSpec{Custom: nearest{}, Time: new(0)}, joiner.Rule{}, 1<<20)
	require.ErrorContains(t, err, "a custom strategy cannot be combined with `point_in_time`")
	failures := 0
	for limit := int64(0); ; limit += 16 {
		again, _, err := run(t, joiner.BuildSpec{Custom: nearest{}}, joiner.Rule{}, limit)
		if err == nil {
			require.Equal(t, rows, again)
			break
		}
		failures++
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
	}
	require.Greater(t, failures, 3)
}
