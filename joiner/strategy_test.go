package joiner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// spec: join-41, join-44
func TestStrategyThatRuns(t *testing.T) {
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
				mem := checked(t)
				fields := columns(t, append(strings.Split(c.fields, ","), "v string")...)
				staging := table{name: "s", fields: fields, rows: parse(c.rows), cuts: twos(c.rows)}
				key := make([]int, len(fields)-1)
				for i := range key {
					key[i] = i
				}
				side, err := Build(t.Context(), staging.input(t, mem, key, nil), BuildSpec{Name: "s", Strategy: strategy}, Options{Memory: mem})
				require.NoError(t, err)
				if !c.sorted {
					want = "index"
				}
				require.Equal(t, want, side.Strategy())
				side.Release()
			}
		})
	}
}

// Bytes of composite keys are ordered as the values are.
// spec: join-41
func TestKeysAreOrderedAsTheirValues(t *testing.T) {
	all := families(t)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		side := asked{table: table{fields: []arrow.Field{field("id", arrow.PrimitiveTypes.Int64)}}}
		var of []family
		for i := range 1 + r.IntN(3) {
			of = append(of, oneOf(r, all))
			side.fields, side.key = append(side.fields, field(fmt.Sprint("k", i), of[i].types[0])), append(side.key, i+1)
		}
		side.rows = slices.DeleteFunc(randomRows(r, 30, of), func(row []string) bool { return slices.Contains(row, null) })
		side.sort()
		_, types, err := keyFields(arrow.NewSchema(side.fields, nil), side.key)
		require.NoError(t, err)
		batch := record(t, memory.DefaultAllocator, arrow.NewSchema(side.fields, nil), side.rows)
		v := newEncoder(types).encode(batch.Columns()[1:])
		for row := 1; row < len(side.rows); row++ {
			want := -truth(!slices.Equal(side.rows[row-1][1:], side.rows[row][1:]))
			require.Equal(t, want, v.compare(int32(row-1), int32(row)), "%v and %v", side.rows[row-1], side.rows[row])
		}
	}
}

// searched looks up keys with a fresh search, batch after batch.
func searched(t *testing.T, x lookups, batches [][]int64) [][]int32 {
	s := x.begin()
	var out [][]int32
	for _, keys := range batches {
		refs := make([]int32, len(keys))
		require.NoError(t, s.lookup(t.Context(), &question{rows: len(keys), keys: vector{ints: keys}}, refs))
		out = append(out, refs)
	}
	return out
}

func newMerged(how rule.Strategy, keys []int64, limit int64) *merged {
	held, _ := budget.New(limit).Reserve("s", 0)
	return &merged{keys: vector{ints: keys}, to: int32(len(keys)), rows: int64(len(keys)), how: how, held: held}
}

// Searches that jump about, fall short, repeat, and pass both ends.
// spec: join-40, join-42
func TestSearchesAgree(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		keys := make([]int64, r.IntN(50))
		for i := range keys {
			keys[i] = int64(r.IntN(40)) * 2
		}
		slices.Sort(keys)
		var batches [][]int64
		for range 4 {
			wanted := make([]int64, r.IntN(40))
			for i := range wanted {
				wanted[i] = int64(r.IntN(90)) - 5
				if i > 0 && r.IntN(2) == 0 {
					wanted[i] = wanted[i-1] + int64(r.IntN(3))
				}
			}
			if r.IntN(2) == 0 {
				slices.Sort(wanted)
			}
			batches = append(batches, wanted)
		}
		x := newIndex(vector{ints: keys}, int64(len(keys)))
		for i := range keys {
			x.add(int32(i))
		}
		want := searched(t, x, batches)
		for _, how := range []rule.Strategy{rule.StrategyAuto, rule.StrategyMerge, rule.StrategyZip} {
			require.Equal(t, want, searched(t, newMerged(how, keys, 1<<20), batches), "strategy %d", how)
		}
	}
}

// spec: join-42, join-44
func TestAutoIndexesWhenSearchesJump(t *testing.T) {
	keys := make([]int64, 4000)
	for i := range keys {
		keys[i] = int64(i)
	}
	jumping := slices.Clone(keys)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(jumping), func(i, j int) { jumping[i], jumping[j] = jumping[j], jumping[i] })
	cases := map[string]struct {
		how    rule.Strategy
		wanted []int64
		limit  int64
		want   string
	}{
		"ascending keys need none": {rule.StrategyAuto, keys, 1 << 20, "merge"},
		"keys that jump":           {rule.StrategyAuto, jumping, 1 << 20, "index"},
		"no memory for one":        {rule.StrategyAuto, jumping, 1000, "merge"},
		"merge means merge":        {rule.StrategyMerge, jumping, 1 << 20, "merge"},
		"zip means zip":            {rule.StrategyZip, jumping, 1 << 20, "zip"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMerged(c.how, keys, c.limit)
			var wait sync.WaitGroup
			for range 3 { // joins that share the side
				wait.Go(func() {
					for _, refs := range searched(t, m, [][]int64{c.wanted, c.wanted}) {
						for i, ref := range refs {
							if int64(ref) != c.wanted[i]+1 {
								t.Errorf("key %d finds reference %d", c.wanted[i], ref)
							}
						}
					}
				})
			}
			wait.Wait()
			require.Equal(t, c.want, m.strategy())
			require.Equal(t, c.want == "index", m.held.Held() > 0)
		})
	}
}

// nearest is a custom strategy: it finds the staging row with the greatest key
// that is not above the training row's.
type nearest struct {
	shift  int32 // added to every row that was found
	failed error
}

type nearestFinder struct {
	keys  []int64
	rows  []int32 // in the order of their keys
	shift int32
}

func (n nearest) Index(_ context.Context, keys []arrow.Array, grow func(int64) error) (Finder, error) {
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
			found[i] = 1 << 30 // nobody looks
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
	run := func(t *testing.T, spec BuildSpec, rule Rule, limit int64) ([]string, []Counts, error) {
		mem, b := checked(t), budget.New(limit)
		spec.Name, rule.Name = "s", "s"
		training := table{name: "training", fields: columns(t, "k long"), rows: parse("12, 9, -, 1, 20, 31"), cuts: []int{2, 2}}
		staging := table{name: "staging", fields: columns(t, "r long", "v string"), rows: parse("20 c, - x, 10 b, 2 a"), cuts: []int{1, 2}}
		opts := Options{Memory: mem, Budget: b}
		r, err := Join(t.Context(), training.input(t, mem, nil, []int{0}), []Probe{{
			Rule: rule, Key: []int{0}, Columns: staging.fields[1:],
			BuildSide: func(ctx context.Context) (Probeable, error) {
				side, err := Build(ctx, staging.input(t, mem, []int{0}, []int{1}), spec, opts)
				if err != nil {
					return nil, err
				}
				require.Equal(t, "custom", side.Strategy())
				require.Equal(t, b.Used(), side.Bytes())
				return side, nil
			},
		}}, opts)
		require.NoError(t, err)
		rows, counts, err := drain(t, r)
		require.Zero(t, b.Used())
		return rows, counts, err
	}
	rows, counts, err := run(t, BuildSpec{Custom: nearest{}}, Rule{}, 1<<20)
	require.NoError(t, err)
	require.Equal(t, []string{"12 b", "9 a", "(null) (null)", "1 (null)", "20 c", "31 c"}, rows)
	require.Equal(t, []Counts{{Rows: 6, Matched: 4, Missing: 2, NullKeys: 1}}, counts)

	_, _, err = run(t, BuildSpec{Custom: nearest{shift: 2}}, Rule{}, 1<<20)
	require.ErrorContains(t, err, "a custom strategy found row 4 of 4")
	require.Equal(t, fault.Internal, fault.KindOf(err))
	_, _, err = run(t, BuildSpec{Custom: nearest{shift: -4}}, Rule{}, 1<<20)
	require.ErrorContains(t, err, "a custom strategy found row -2 of 4")
	broken := errors.New("broken")
	_, _, err = run(t, BuildSpec{Custom: nearest{failed: broken}}, Rule{}, 1<<20)
	require.ErrorIs(t, err, broken)
	_, _, err = run(t, BuildSpec{Custom: nearest{}, Time: new(0)}, Rule{}, 1<<20)
	require.ErrorContains(t, err, "a custom strategy knows no times")
	failures := 0
	for limit := int64(0); ; limit += 16 {
		again, _, err := run(t, BuildSpec{Custom: nearest{}}, Rule{}, limit)
		if err == nil {
			require.Equal(t, rows, again)
			break
		}
		failures++
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
	}
	require.Greater(t, failures, 3)
}
