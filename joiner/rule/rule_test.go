package rule_test

import (
	"encoding"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	type means struct{ matched, missing, all, adds, fills, replaces bool }
	want := map[rule.Kind]means{
		rule.Left:    {matched: true, missing: true, all: true, adds: true, fills: true},
		rule.Inner:   {matched: true, adds: true},
		rule.Semi:    {matched: true},
		rule.Anti:    {missing: true},
		rule.Overlay: {matched: true, missing: true, all: true, adds: true, fills: true, replaces: true},
	}
	require.Len(t, want, len(rule.Kinds()))
	for _, k := range rule.Kinds() {
		got := means{k.Keeps(true), k.Keeps(false), k.KeepsAll(), k.Adds(), k.Fills(), k.Replaces()}
		require.Equal(t, want[k], got, k)
		require.Contains(t, k.Article(), " "+k.String())
	}
}

func TestDuplicatesMissingAndNulls(t *testing.T) {
	t.Parallel()
	type means struct{ fail, multiply, choose, last bool }
	for d, want := range map[rule.Duplicates]means{
		rule.DuplicatesError: {fail: true}, rule.DuplicatesFirst: {choose: true},
		rule.DuplicatesLast: {choose: true, last: true}, rule.DuplicatesAll: {multiply: true},
	} {
		require.Equal(t, want, means{d.Fail(), d.Multiply(), d.Choose(), d.TakeLast()}, d)
	}
	require.True(t, rule.MissingError.Fail())
	require.True(t, rule.MissingDefault.Defaults())
	require.False(t, rule.MissingNull.Fail() || rule.MissingNull.Defaults() || rule.MissingDefault.Fail() || rule.MissingError.Defaults())
	require.True(t, rule.NullsReplace.Replace())
	require.False(t, rule.NullsKeep.Replace())
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	type means struct{ whole, custom, merges, zips, fallsBack bool }
	for s, want := range map[rule.Strategy]means{
		rule.StrategyAuto: {merges: true, fallsBack: true}, rule.StrategyIndex: {}, rule.StrategyMerge: {merges: true},
		rule.StrategyZip: {merges: true, zips: true}, rule.StrategyBroadcast: {whole: true, merges: true, fallsBack: true},
		rule.StrategyCustom: {whole: true, custom: true},
	} {
		require.Equal(t, want, means{s.Whole(), s.Custom(), s.Merges(), s.Zips(), s.FallsBack()}, s)
	}
}

// checkWords checks what every list promises: each word is parsed from its own text,
// texts are distinct, and no other text is a word.
func checkWords[W rule.Word](t *testing.T, all []W) {
	t.Helper()
	seen := map[string]bool{}
	for _, w := range all {
		require.False(t, seen[w.String()], w)
		seen[w.String()] = true
		require.NoError(t, rule.Check(w, all))
		text, err := any(w).(encoding.TextMarshaler).MarshalText()
		require.NoError(t, err)
		again, err := rule.Parse(string(text), all)
		require.NoError(t, err)
		require.Equal(t, w, again)
	}
	require.True(t, seen[W("").String()], "the zero value is the default")
	for _, other := range []W{"Left", "unknown"} {
		require.Equal(t, fault.Internal, fault.KindOf(rule.Check(other, all)))
		_, err := any(other).(encoding.TextMarshaler).MarshalText()
		require.Error(t, err)
	}
	for _, text := range []string{"", "LEFT", "unknown"} {
		_, err := rule.Parse(text, all)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

func TestWordsRoundTrip(t *testing.T) {
	t.Parallel()
	checkWords(t, rule.Kinds())
	checkWords(t, rule.AllDuplicates())
	checkWords(t, rule.AllMissing())
	checkWords(t, rule.AllNulls())
	checkWords(t, rule.Strategies())
}
