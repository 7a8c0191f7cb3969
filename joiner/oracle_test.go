package joiner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// covered names the features of a case.
func covered(w joinertest.World, broken int, out []string, counts []joiner.Counts) []string {
	seen := []string{fmt.Sprintf("%d staging tables", len(w.Staging))}
	if broken >= 0 {
		rule := w.Staging[broken].Rule
		return append(seen, fmt.Sprintf("broken in table %d, missing %v kind %v", broken, rule.Missing, rule.Kind))
	}
	switch {
	case len(out) == 0:
		seen = append(seen, "no rows")
	case len(out) < len(w.Training.Rows):
		seen = append(seen, "some rows dropped")
	case len(out) > len(w.Training.Rows):
		seen = append(seen, "some rows repeated")
	}
	for s, c := range counts {
		built := w.Staging[s]
		if c.Matched == 0 {
			continue
		}
		for i, at := range built.At {
			seen = append(seen, fmt.Sprintf("%s matches %s", w.Training.Fields[at].Type, built.Fields[built.Key[i]].Type))
		}
		if c.NullKeys > 0 {
			seen = append(seen, "null keys")
		}
		if c.Duplicates > 0 {
			seen = append(seen, fmt.Sprintf("duplicates %v, kind %v", built.Rule.Duplicates, built.Rule.Kind),
				fmt.Sprintf("duplicates %v, ordered %v", built.Rule.Duplicates, built.Spec.OrderBy != nil),
				fmt.Sprintf("duplicates %v, timed %v", built.Rule.Duplicates, built.Rule.Time != nil))
		}
		if len(built.Columns) == 0 {
			seen = append(seen, "no columns")
		}
		if len(built.Rule.Overlays) > 0 {
			seen = append(seen, fmt.Sprintf("overlay, keep %v", !built.Rule.Nulls.Replace()))
		}
		if c.Defaulted > 0 && len(out) > 0 {
			seen = append(seen, fmt.Sprintf("defaults, kind %v", built.Rule.Kind))
		}
		if built.Rule.Time != nil {
			seen = append(seen, fmt.Sprintf("time, exact %v, kind %v", built.Rule.Time.Exact, built.Rule.Kind))
		}
		seen = append(seen, fmt.Sprintf("%d key columns", len(built.Key)), fmt.Sprintf("%d batches", min(4, len(built.Cuts)+1)))
	}
	return seen
}

// withoutFiles returns an error's text without files, which differ with the batches.
func withoutFiles(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", in file")
	text, _, _ = strings.Cut(text, " (file")
	return text
}

// spec: join-1, join-3, join-4, join-5, join-6, join-7, join-9, join-11, join-12, join-15, join-16, join-17, join-18
// spec: join-26, join-27, join-28, join-29, join-30, join-31, join-32, join-33, join-34, join-35, join-36, join-37, join-39, join-40
func TestJoinAgreesWithTheOracle(t *testing.T) {
	all, times, seen := joinertest.Families(t), joinertest.TimeTypes(t), map[string]int{}
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := joinertest.RandomWorld(r, all, times)
		want, wantCounts, broken := joinertest.Oracle(w.Training.Rows, w.Columns, w.Staging)
		for _, label := range covered(w, broken, want, wantCounts) {
			seen[label]++
		}
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			failure := ""
			for i, strategy := range []rule.Strategy{"", rule.StrategyAuto, rule.StrategyIndex, rule.StrategyMerge, rule.StrategyZip} {
				if i > 0 && seed%4 != 0 {
					break
				}
				run := w
				if i > 0 {
					run = w.WithStrategy(strategy)
				}
				run.Codes = (seed+uint64(i))%2 == 0
				got := run.Run(t, func(built *joiner.BuildSide) {
					require.GreaterOrEqual(t, built.Bytes(), joiner.Holds(built))
					require.LessOrEqual(t, built.Bytes(), joiner.Holds(built)+joiner.Word)
				})
				for _, s := range got.Ran {
					seen[fmt.Sprintf("strategy %s ran as %s", strategy, s)]++
				}
				w = w.CutAnew(r)
				if broken >= 0 {
					require.Equal(t, fault.Invalid, fault.KindOf(got.Err))
					require.ErrorContains(t, got.Err, "join "+w.Staging[broken].Name+":")
					if same := withoutFiles(got.Err); failure != "" {
						require.Equal(t, failure, same)
					} else {
						failure = same
					}
					continue
				}
				require.NoError(t, got.Err)
				require.Equal(t, want, got.Rows)
				require.Equal(t, wantCounts, got.Counts)
			}
		})
		require.True(t, ok)
	}
	for _, label := range []string{
		"0 staging tables", "1 staging tables", "4 staging tables", "no rows", "some rows dropped", "some rows repeated", "null keys", "no columns",
		"1 key columns", "2 key columns", "3 key columns", "1 batches", "4 batches",
		"int32 matches int64", "int64 matches int32", "utf8 matches large_utf8", "large_utf8 matches utf8",
		"binary matches large_binary", "date32 matches date32", "time64[us] matches time64[us]", "decimal(9, 2) matches decimal(30, 2)",
		"timestamp[us, tz=UTC] matches timestamp[us, tz=+00:00]", "timestamp[ns] matches timestamp[ns]",
		"fixed_size_binary[4] matches fixed_size_binary[4]",
		"broken in table 0, missing null kind left", "broken in table 3, missing error kind inner",
		"duplicates first, kind left", "duplicates last, kind inner", "duplicates all, kind left", "duplicates all, kind overlay",
		"duplicates error, kind semi", "duplicates all, kind anti",
		"duplicates first, ordered true", "duplicates last, ordered true", "duplicates all, ordered false", "duplicates all, ordered true",
		"duplicates first, timed true", "duplicates last, timed true", "duplicates all, timed true",
		"overlay, keep true", "overlay, keep false", "defaults, kind left", "defaults, kind overlay",
		"time, exact true, kind left", "time, exact false, kind left", "time, exact true, kind anti",
		"strategy auto ran as merge", "strategy auto ran as index", "strategy index ran as index", "strategy merge ran as merge",
		"strategy merge ran as index", "strategy zip ran as zip", "strategy zip ran as index",
	} {
		require.NotZero(t, seen[label], "the cases have no example of %q: %v", label, seen)
	}
}
