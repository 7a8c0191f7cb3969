package joiner

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// oracle joins by looking at every pair of rows. broken is the side whose rule
// is the first to be broken, or -1.
func oracle(training rows, columns []int, sides []asked) (out []string, counts []Counts, broken int) {
	counts = make([]Counts, len(sides))
	for _, row := range training {
		drop, options := false, make([]rows, len(sides))
		for s, side := range sides {
			options[s] = side.candidates(row)
			if side.breaks(options[s]) {
				return nil, nil, s
			}
			side.count(&counts[s], row, options[s])
			matched := len(options[s]) > 0
			switch side.rule.Kind {
			case rule.Inner, rule.Semi:
				drop = drop || !matched
			case rule.Anti:
				drop = drop || matched
			}
			options[s] = side.chosen(options[s])
		}
		if !drop {
			out = append(out, combinations(pick(row, columns), sides, options)...)
		}
	}
	return out, counts, -1
}

// candidates returns the staging rows that match, in the side's order.
func (x asked) candidates(row []string) rows {
	key := pick(row, x.at)
	if slices.Contains(key, null) {
		return nil
	}
	var matches rows
	for _, staging := range x.rows {
		if slices.Equal(key, pick(staging, x.key)) && x.inTime(row, staging) {
			matches = append(matches, staging)
		}
	}
	slices.SortStableFunc(matches, func(a, b []string) int {
		for _, o := range x.spec.OrderBy {
			if c := x.compare(o, a[o.Column], b[o.Column]); c != 0 {
				return c
			}
		}
		return 0
	})
	if x.rule.Time == nil {
		return matches
	}
	at := *x.spec.Time
	latest := ""
	for _, m := range matches {
		if latest == "" || x.ticks[m[at]] > x.ticks[latest] {
			latest = m[at]
		}
	}
	return slices.DeleteFunc(matches, func(m []string) bool { return m[at] != latest })
}

func (x asked) inTime(row, staging []string) bool {
	rule := x.rule.Time
	if rule == nil {
		return true
	}
	training, ok := x.ticks[row[rule.Column]]
	tick, has := x.ticks[staging[*x.spec.Time]]
	if !ok || !has || tick > training || tick == training && !rule.Exact {
		return false
	}
	age := new(big.Int).Sub(big.NewInt(training), big.NewInt(tick))
	return age.Cmp(big.NewInt(rule.Tolerance)) <= 0
}

func (x asked) compare(o Order, a, b string) int {
	if a == null || b == null {
		return truth(a == null) - truth(b == null)
	}
	c := cmp.Compare(a, b)
	if tick, ok := x.ticks[a]; ok && x.fields[o.Column].Name == "t" {
		c = cmp.Compare(tick, x.ticks[b])
	} else if x.fields[o.Column].Name == "number" {
		i, _ := strconv.Atoi(a)
		j, _ := strconv.Atoi(b)
		c = cmp.Compare(i, j)
	}
	if o.Descending {
		return -c
	}
	return c
}

func (x asked) shows() bool { return x.rule.Kind != rule.Semi && x.rule.Kind != rule.Anti }

func (x asked) breaks(matches rows) bool {
	return len(matches) == 0 && x.rule.Missing.Fail() ||
		len(matches) > 1 && x.rule.Duplicates == rule.DuplicatesError && x.shows()
}

func (x asked) count(c *Counts, row []string, matches rows) {
	c.Rows++
	switch len(matches) {
	case 0:
		c.Missing++
		if slices.Contains(pick(row, x.at), null) {
			c.NullKeys++
		}
		if strings.Join(x.defaults, "") != "" && (x.rule.Kind == rule.Left || x.rule.Kind == rule.Overlay) {
			c.Defaulted++
		}
	case 1:
		c.Matched++
	default:
		c.Matched++
		c.Duplicates++
		if x.shows() && (x.rule.Duplicates == rule.DuplicatesFirst || x.rule.Duplicates == rule.DuplicatesLast) {
			c.Resolved++
		}
	}
}

// chosen returns the staging rows that the result shows beside a training row;
// nil stands for none.
func (x asked) chosen(matches rows) rows {
	switch {
	case len(matches) == 0:
		return rows{nil}
	case !x.shows(): // which one does not matter, and the test does not look
		return matches[:1]
	case x.rule.Duplicates == rule.DuplicatesLast:
		return matches[len(matches)-1:]
	case x.rule.Duplicates == rule.DuplicatesAll:
		return matches
	default:
		return matches[:1]
	}
}

// combinations writes a training row beside every combination of its staging
// rows, those of the first side going slowest.
func combinations(values []string, sides []asked, options []rows) []string {
	if len(sides) == 0 {
		return []string{strings.Join(values, " ")}
	}
	var out []string
	side := sides[0]
	for _, match := range options[0] {
		row := slices.Clone(values)
		for _, o := range side.rule.Overlays {
			if match != nil && (match[side.columns[o.Field]] != null || side.rule.Nulls.Replace()) {
				row[o.Training] = match[side.columns[o.Field]]
			}
		}
		for i, at := range side.columns {
			switch {
			case match != nil:
				row = append(row, match[at])
			case side.defaults != nil && side.defaults[i] != "":
				row = append(row, side.defaults[i])
			default:
				row = append(row, null)
			}
		}
		if side.spec.Matched != "" {
			row = append(row, strconv.FormatBool(match != nil))
		}
		out = append(out, combinations(row, sides[1:], options[1:])...)
	}
	return out
}

func pick(row []string, at []int) []string {
	out := make([]string, len(at))
	for i, p := range at {
		out[i] = row[p]
	}
	return out
}

// covered names what a case is an example of.
func covered(w world, broken int, out []string, counts []Counts) []string {
	seen := []string{fmt.Sprintf("%d sides", len(w.sides))}
	if broken >= 0 {
		rule := w.sides[broken].rule
		return append(seen, fmt.Sprintf("broken in side %d, missing %v kind %v", broken, rule.Missing, rule.Kind))
	}
	switch {
	case len(out) == 0:
		seen = append(seen, "no rows")
	case len(out) < len(w.training.rows):
		seen = append(seen, "some rows dropped")
	case len(out) > len(w.training.rows):
		seen = append(seen, "some rows repeated")
	}
	for s, c := range counts {
		side := w.sides[s]
		if c.Matched == 0 {
			continue
		}
		for i, at := range side.at {
			seen = append(seen, fmt.Sprintf("%s matches %s", w.training.fields[at].Type, side.fields[side.key[i]].Type))
		}
		if c.NullKeys > 0 {
			seen = append(seen, "null keys")
		}
		if c.Duplicates > 0 {
			seen = append(seen, fmt.Sprintf("duplicates rule %d, kind %d", side.rule.Duplicates, side.rule.Kind),
				fmt.Sprintf("duplicates rule %d, ordered %v", side.rule.Duplicates, side.spec.OrderBy != nil),
				fmt.Sprintf("duplicates rule %d, timed %v", side.rule.Duplicates, side.rule.Time != nil))
		}
		if len(side.columns) == 0 {
			seen = append(seen, "no columns")
		}
		if len(side.rule.Overlays) > 0 {
			seen = append(seen, fmt.Sprintf("overlay, keep %v", !side.rule.Nulls.Replace()))
		}
		if c.Defaulted > 0 && len(out) > 0 {
			seen = append(seen, fmt.Sprintf("defaults, kind %d", side.rule.Kind))
		}
		if side.rule.Time != nil {
			seen = append(seen, fmt.Sprintf("time, exact %v, kind %d", side.rule.Time.Exact, side.rule.Kind))
		}
		seen = append(seen, fmt.Sprintf("%d key columns", len(side.key)), fmt.Sprintf("%d batches", min(4, len(side.cuts)+1)))
	}
	return seen
}

// outcome is what a world's join came to.
type outcome struct {
	rows   []string
	counts []Counts
	ran    []string // by side, the strategy
	err    error
}

// run joins a world, with a strategy for all sides if it is not negative.
func (w world) run(t *testing.T, strategy rule.Strategy) (out outcome) {
	mem, limit := checked(t), budget.New(1<<30)
	opts := Options{Memory: mem, Budget: limit}
	var probes []Probe
	var sides []*BuildSide
	for _, s := range w.sides {
		var columns []arrow.Field
		for _, at := range s.columns {
			columns = append(columns, s.fields[at])
		}
		if strategy >= 0 {
			s.spec.Strategy = strategy
		}
		side, err := Build(t.Context(), s.input(t, mem, s.key, s.columns), s.spec, opts)
		require.NoError(t, err)
		require.GreaterOrEqual(t, side.Bytes(), holds(side))
		require.LessOrEqual(t, side.Bytes(), holds(side)+word)
		side.Retain()
		sides = append(sides, side)
		probes = append(probes, Probe{
			Rule: s.rule, Key: s.at, Columns: columns, Matched: s.spec.Matched,
			BuildSide: func(context.Context) (Probeable, error) { return side, nil },
		})
	}
	r, err := Join(t.Context(), w.training.input(t, mem, nil, w.columns), probes, opts)
	require.NoError(t, err)
	if len(w.training.rows) == 0 { // nobody asks for the sides
		for _, side := range sides {
			side.Release()
		}
	}
	out.rows, out.counts, out.err = drain(t, r)
	for _, side := range sides {
		out.ran = append(out.ran, side.Strategy())
		require.LessOrEqual(t, side.Bytes(), holds(side)+word)
		side.Release()
	}
	require.Zero(t, limit.Used())
	return out
}

// cutAnew cuts all streams of a world into other batches.
func (w world) cutAnew(r *rand.Rand) world {
	w.training.cuts = randomCuts(r, len(w.training.rows))
	w.sides = slices.Clone(w.sides)
	for i := range w.sides {
		w.sides[i].cuts = randomCuts(r, len(w.sides[i].rows))
	}
	return w
}

// withoutFiles returns what an error says, but for files: they are cut anew.
func withoutFiles(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", in file")
	text, _, _ = strings.Cut(text, " (file")
	return text
}

// spec: join-1, join-3, join-4, join-5, join-6, join-7, join-9, join-11, join-12, join-15, join-16, join-17, join-18
// spec: join-26, join-27, join-28, join-29, join-30, join-31, join-32, join-33, join-34, join-35, join-36, join-37, join-39, join-40
func TestJoinAgreesWithTheOracle(t *testing.T) {
	all, times, seen := families(t), clocks(t), map[string]int{}
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := randomWorld(r, all, times)
		want, wantCounts, broken := oracle(w.training.rows, w.columns, w.sides)
		for _, label := range covered(w, broken, want, wantCounts) {
			seen[label]++
		}
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			failure := ""
			for _, strategy := range []rule.Strategy{-1, rule.StrategyAuto, rule.StrategyIndex, rule.StrategyMerge, rule.StrategyZip} {
				if strategy >= 0 && seed%4 != 0 {
					break
				}
				got := w.run(t, strategy)
				for _, s := range got.ran {
					seen[fmt.Sprintf("strategy %d ran as %s", strategy, s)]++
				}
				w = w.cutAnew(r)
				if broken >= 0 {
					require.Equal(t, fault.Invalid, fault.KindOf(got.err))
					require.ErrorContains(t, got.err, "join "+w.sides[broken].name+":")
					if same := withoutFiles(got.err); failure != "" {
						require.Equal(t, failure, same)
					} else {
						failure = same
					}
					continue
				}
				require.NoError(t, got.err)
				require.Equal(t, want, got.rows)
				require.Equal(t, wantCounts, got.counts)
			}
		})
		require.True(t, ok)
	}
	for _, label := range []string{
		"0 sides", "1 sides", "4 sides", "no rows", "some rows dropped", "some rows repeated", "null keys", "no columns",
		"1 key columns", "2 key columns", "3 key columns", "1 batches", "4 batches",
		"int32 matches int64", "int64 matches int32", "utf8 matches large_utf8", "large_utf8 matches utf8",
		"binary matches large_binary", "date32 matches date32", "time64[us] matches time64[us]", "decimal(9, 2) matches decimal(30, 2)",
		"timestamp[us, tz=UTC] matches timestamp[us, tz=+00:00]", "timestamp[ns] matches timestamp[ns]",
		"fixed_size_binary[4] matches fixed_size_binary[4]",
		"broken in side 0, missing null kind left", "broken in side 3, missing error kind inner",
		"duplicates rule 1, kind 0", "duplicates rule 2, kind 1", "duplicates rule 3, kind 0", "duplicates rule 3, kind 4",
		"duplicates rule 0, kind 2", "duplicates rule 3, kind 3",
		"duplicates rule 1, ordered true", "duplicates rule 2, ordered true", "duplicates rule 3, ordered false", "duplicates rule 3, ordered true",
		"duplicates rule 1, timed true", "duplicates rule 2, timed true", "duplicates rule 3, timed true",
		"overlay, keep true", "overlay, keep false", "defaults, kind 0", "defaults, kind 4",
		"time, exact true, kind 0", "time, exact false, kind 0", "time, exact true, kind 3",
		"strategy 0 ran as merge", "strategy 0 ran as index", "strategy 1 ran as index", "strategy 2 ran as merge",
		"strategy 2 ran as index", "strategy 3 ran as zip", "strategy 3 ran as index",
	} {
		require.NotZero(t, seen[label], "the cases have no example of %q: %v", label, seen)
	}
}
