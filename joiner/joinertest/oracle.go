package joinertest

import (
	"cmp"
	"context"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
)

// Oracle joins by comparing every pair of rows. broken is the staging table whose rule is
// the first to be broken, or -1.
func Oracle(training Rows, columns []int, tables []Staging) (out []string, counts []joiner.Counts, broken int) {
	counts = make([]joiner.Counts, len(tables))
	for _, row := range training {
		drop, options := false, make([]Rows, len(tables))
		for s, table := range tables {
			options[s] = table.candidates(row)
			if table.breaks(options[s]) {
				return nil, nil, s
			}
			table.count(&counts[s], row, options[s])
			matched := len(options[s]) > 0
			switch table.Rule.Kind {
			case rule.Inner, rule.Semi:
				drop = drop || !matched
			case rule.Anti:
				drop = drop || matched
			}
			options[s] = table.chosen(options[s])
		}
		if !drop {
			out = append(out, combinations(pick(row, columns), tables, options)...)
		}
	}
	return out, counts, -1
}

// candidates returns the staging rows that match, in the staging table's order.
func (x Staging) candidates(row []string) Rows {
	key := pick(row, x.At)
	if slices.Contains(key, Null) {
		return nil
	}
	var matches Rows
	for _, staging := range x.Rows {
		if slices.Equal(key, pick(staging, x.Key)) && x.inTime(row, staging) {
			matches = append(matches, staging)
		}
	}
	slices.SortStableFunc(matches, func(a, b []string) int {
		for _, o := range x.Spec.OrderBy {
			if c := x.compare(o, a[o.Column], b[o.Column]); c != 0 {
				return c
			}
		}
		return 0
	})
	if x.Rule.Time == nil {
		return matches
	}
	at := *x.Spec.Time
	latest := ""
	for _, m := range matches {
		if latest == "" || x.ticks[m[at]] > x.ticks[latest] {
			latest = m[at]
		}
	}
	return slices.DeleteFunc(matches, func(m []string) bool { return m[at] != latest })
}

func (x Staging) inTime(row, staging []string) bool {
	rule := x.Rule.Time
	if rule == nil {
		return true
	}
	training, ok := x.ticks[row[rule.Column]]
	tick, has := x.ticks[staging[*x.Spec.Time]]
	if !ok || !has || tick > training || tick == training && !rule.Exact {
		return false
	}
	age := new(big.Int).Sub(big.NewInt(training), big.NewInt(tick))
	return age.Cmp(big.NewInt(rule.Tolerance)) <= 0
}

func (x Staging) compare(o joiner.Order, a, b string) int {
	if a == Null || b == Null {
		return truth(a == Null) - truth(b == Null)
	}
	c := cmp.Compare(a, b)
	if tick, ok := x.ticks[a]; ok && x.Fields[o.Column].Name == "t" {
		c = cmp.Compare(tick, x.ticks[b])
	} else if x.Fields[o.Column].Name == "number" {
		i, _ := strconv.Atoi(a)
		j, _ := strconv.Atoi(b)
		c = cmp.Compare(i, j)
	}
	if o.Descending {
		return -c
	}
	return c
}

func (x Staging) shows() bool { return x.Rule.Kind != rule.Semi && x.Rule.Kind != rule.Anti }

func (x Staging) breaks(matches Rows) bool {
	return len(matches) == 0 && x.Rule.Missing.Fail() ||
		len(matches) > 1 && x.Rule.Duplicates == rule.DuplicatesError && x.shows()
}

func (x Staging) count(c *joiner.Counts, row []string, matches Rows) {
	c.Rows++
	switch len(matches) {
	case 0:
		c.Missing++
		if slices.Contains(pick(row, x.At), Null) {
			c.NullKeys++
		}
		if strings.Join(x.defaults, "") != "" && (x.Rule.Kind == rule.Left || x.Rule.Kind == rule.Overlay) {
			c.Defaulted++
		}
	case 1:
		c.Matched++
	default:
		c.Matched++
		c.Duplicates++
		if x.shows() && (x.Rule.Duplicates == rule.DuplicatesFirst || x.Rule.Duplicates == rule.DuplicatesLast) {
			c.Resolved++
		}
	}
}

// chosen returns the staging rows that the result has with a training row; nil stands for
// none.
func (x Staging) chosen(matches Rows) Rows {
	switch {
	case len(matches) == 0:
		return Rows{nil}
	case !x.shows(): // which one does not matter, and tests do not look
		return matches[:1]
	case x.Rule.Duplicates == rule.DuplicatesLast:
		return matches[len(matches)-1:]
	case x.Rule.Duplicates == rule.DuplicatesAll:
		return matches
	default:
		return matches[:1]
	}
}

// combinations returns a training row with every combination of its staging rows, those
// of the first staging table varying slowest.
func combinations(values []string, tables []Staging, options []Rows) []string {
	if len(tables) == 0 {
		return []string{strings.Join(values, " ")}
	}
	var out []string
	table := tables[0]
	for _, match := range options[0] {
		row := slices.Clone(values)
		for _, o := range table.Rule.Overlays {
			if match != nil && (match[table.Columns[o.Field]] != Null || table.Rule.Nulls.Replace()) {
				row[o.Training] = match[table.Columns[o.Field]]
			}
		}
		for i, at := range table.Columns {
			switch {
			case match != nil:
				row = append(row, match[at])
			case table.defaults != nil && table.defaults[i] != "":
				row = append(row, table.defaults[i])
			default:
				row = append(row, Null)
			}
		}
		if table.Spec.Matched != "" {
			row = append(row, strconv.FormatBool(match != nil))
		}
		out = append(out, combinations(row, tables[1:], options[1:])...)
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

// Outcome is the result of joining a world.
type Outcome struct {
	Rows   []string
	Counts []joiner.Counts
	Ran    []string // by build side, its strategy
	Err    error
}

// mayBeCoded returns the columns whose values the joiner does not look at.
func (x *Staging) mayBeCoded() (at []int) {
	for _, i := range x.Columns {
		ordered := slices.ContainsFunc(x.Spec.OrderBy, func(o joiner.Order) bool { return o.Column == i })
		if batch.MayBeCoded(x.Fields[i].Type) && !slices.Contains(x.Key, i) && !ordered {
			at = append(at, i)
		}
	}
	return at
}

// Run joins a world. It calls check with each build side before the join and after
// it.
func (w World) Run(t *testing.T, check func(*joiner.BuildSide)) (out Outcome) {
	mem, limit := Checked(t), budget.New(1<<30)
	opts := joiner.Options{Memory: mem, Budget: limit}
	var probes []joiner.Probe
	var builds []*joiner.BuildSide
	for _, s := range w.Staging {
		var columns []arrow.Field
		for _, at := range s.Columns {
			columns = append(columns, s.Fields[at])
		}
		if w.Codes {
			s.Coded = s.mayBeCoded()
		}
		built, err := joiner.Build(t.Context(), s.Input(t, mem, s.Key, s.Columns), s.Spec, opts)
		require.NoError(t, err)
		check(built)
		built.Retain()
		builds = append(builds, built)
		probes = append(probes, joiner.Probe{
			Rule: s.Rule, Key: s.At, Columns: columns, Matched: s.Spec.Matched,
			BuildSide: func(context.Context) (joiner.Probeable, error) { return built, nil },
		})
	}
	r, err := joiner.Join(t.Context(), w.Training.Input(t, mem, nil, w.Columns), probes, opts)
	require.NoError(t, err)
	if len(w.Training.Rows) == 0 { // the join does not open build sides
		for _, built := range builds {
			built.Release()
		}
	}
	out.Rows, out.Counts, out.Err = Drain(t, r)
	for _, built := range builds {
		out.Ran = append(out.Ran, built.Strategy())
		check(built)
		built.Release()
	}
	require.Zero(t, limit.Used())
	return out
}

// WithStrategy returns a world whose staging tables all have one strategy.
func (w World) WithStrategy(strategy rule.Strategy) World {
	w.Staging = slices.Clone(w.Staging)
	for i := range w.Staging {
		w.Staging[i].Spec.Strategy = strategy
	}
	return w
}

// CutAnew splits all streams of a world into other batches.
func (w World) CutAnew(r *rand.Rand) World {
	w.Training.Cuts = randomCuts(r, len(w.Training.Rows))
	w.Staging = slices.Clone(w.Staging)
	for i := range w.Staging {
		w.Staging[i].Cuts = randomCuts(r, len(w.Staging[i].Rows))
	}
	return w
}
