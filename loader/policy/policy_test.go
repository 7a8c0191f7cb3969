package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// home reads ml.impressions with features.history.
func home() dataset.Dataset {
	return dataset.Dataset{Training: dataset.Training{Table: "ml.impressions"}, Staging: []dataset.Staging{{Table: "features.history"}}}
}

func someone(subject string) identity.Caller { return identity.Caller{Subject: subject} }

// sample is a policy with rules of every kind.
func sample() *Policy {
	withheld := TableLimits{Name: "ml.impressions", Withheld: []string{"user_id"}, Filter: datasettest.Filter("country = 'DE' OR country = 'AT'")}
	return &Policy{
		Names:  Names{Catalogs: []string{"lake", "other"}, Default: "lake"},
		Groups: map[string][]string{"ads": {"ranker", "sweep-*"}},
		Rules: []AccessRule{
			{Groups: []string{"ads"}, Read: []string{"home", "ads_*"}, Inline: []string{"lake.ml.*", "lake.features.*"}, Allow: []Permission{Explain}, Tables: []TableLimits{withheld}},
			{Claims: map[string][]string{"team": {"platform", "infra"}}, Read: []string{"*"}, Allow: Actions()},
			{Groups: []string{"ads"}, Read: []string{"home", "late"}, Allow: []Permission{Verify}},
		},
	}
}

// TestWhoMayReadWhat is a table of clients, datasets and answers.
//
// spec: access-11, access-12
func TestWhoMayReadWhat(t *testing.T) {
	p := sample()
	platform := identity.Caller{Subject: "x", Claims: map[string][]string{"team": {"search", "infra"}, "ads": {"ads"}}}
	for _, c := range []struct {
		who       identity.Caller
		dataset   string
		may       bool
		withholds bool
	}{
		{someone("ranker"), "home", true, true},
		{someone("sweep-17"), "home", true, true},
		{someone("ranker"), "ads_eu", true, true},
		{someone("ranker"), "ads", false, false},
		{someone("ranker"), "late", true, false},
		{someone("ranker"), "Home", false, false},
		{someone("ranker2"), "home", false, false},
		{someone("ads"), "home", false, false},
		{someone(""), "home", false, false},
		{platform, "home", true, false},
		{platform, "anything", true, false},
		{identity.Caller{Subject: "x", Claims: map[string][]string{"team": {"ads"}}}, "home", false, false},
	} {
		rights, may := p.Read(c.who, c.dataset)
		require.Equal(t, c.may, may, "%v %s", c.who, c.dataset)
		require.Equal(t, c.withholds, rights.Limits(home()), "%v %s", c.who, c.dataset)
	}
	require.False(t, p.May(someone("ranker"), Cache))
	require.True(t, p.May(platform, Cache))
	rights, _ := p.Read(someone("ranker"), "home")
	require.True(t, rights.May(Explain))
	require.False(t, rights.May(Verify), "a later rule does not add to the one that decides")
}

// A client may send a dataset only if one rule has all of its tables.
//
// spec: access-13
func TestWhoMaySendDatasets(t *testing.T) {
	p := sample()
	of := func(training, staging string) dataset.Dataset {
		return dataset.Dataset{Training: dataset.Training{Table: training}, Staging: []dataset.Staging{{Table: staging}}}
	}
	for _, c := range []struct {
		who     string
		dataset dataset.Dataset
		may     bool
	}{
		{"ranker", of("ml.impressions", "features.history"), true},
		{"ranker", of("lake.ml.impressions", "features.history"), true},
		{"ranker", of("ml.impressions", "hr.salaries"), false},
		{"ranker", of("hr.salaries", "features.history"), false},
		{"ranker", of("other.ml.impressions", "features.history"), false},
		{"ranker", of("ML.impressions", "features.history"), false},
		{"ranker", dataset.Dataset{Training: dataset.Training{Table: "ml.clicks"}}, true},
		{"other", of("ml.impressions", "features.history"), false},
	} {
		_, may := p.Inline(someone(c.who), c.dataset)
		require.Equal(t, c.may, may, "%s %v", c.who, c.dataset)
	}
	_, may := Open(true).Inline(someone(""), of("a.b", "c.d"))
	require.True(t, may)
	_, may = Open(false).Inline(someone("a"), of("a.b", "c.d"))
	require.False(t, may)
	rights, may := Open(false).Read(someone(""), "home")
	require.True(t, may && rights.May(Verify) && !rights.Limits(home()))
}

// The spelling of a table's name is no way around what is withheld of it.
//
// spec: access-14
func TestLimitsApplyToEveryNameOfATable(t *testing.T) {
	rights, _ := sample().Read(someone("ranker"), "home")
	for _, name := range []string{"ml.impressions", "lake.ml.impressions", "ml.Impressions", "LAKE.ml.impressions"} {
		limits := !rights.Of(name).IsZero()
		require.Equal(t, name != "LAKE.ml.impressions", limits, name) // no catalog has that name
	}
	require.True(t, rights.Of("other.ml.impressions").IsZero())
}

// The filters of a dataset and of the rights are one filter, whatever the text of either is.
//
// spec: access-15
func TestFiltersAreJoinedByAnd(t *testing.T) {
	rights, _ := sample().Read(someone("ranker"), "home")
	for own, both := range map[string]string{
		"":                "country = 'DE' OR country = 'AT'",
		"a = 1 OR b = 2":  "(a = 1 OR b = 2) AND (country = 'DE' OR country = 'AT')",
		"a = 1 AND b = 2": "a = 1 AND b = 2 AND (country = 'DE' OR country = 'AT')",
	} {
		d := home()
		d.Training.Filter = datasettest.Filter(own)
		got := rights.Filtered(d)
		require.Equal(t, both, got.Training.Filter.String(), own)
		require.Equal(t, datasettest.Filter(both).Expr().String(), got.Training.Filter.Expr().String())
		require.NotEqual(t, d.Digest(), got.Digest())
		require.Equal(t, d.Staging, got.Staging)
	}
	d := home()
	d.Training.Table = "ml.clicks"
	require.Equal(t, d.Digest(), rights.Filtered(d).Digest(), "no limits, no other dataset")
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		matches       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"a", "ba", false},
		{"*", "", true},
		{"*", "a.b", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*b", "ab", true},
		{"a*b", "acb", true},
		{"a*b", "acbc", false},
		{"a*b*c", "abbc", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false},
		{"*a*", "bab", true},
		{"*a*", "b", false},
		{"a?", "ab", false},
		{"**", "x", true},
	} {
		require.Equal(t, c.matches, Matches(c.pattern, c.name), "%q %q", c.pattern, c.name)
	}
}

func TestNamesOfTables(t *testing.T) {
	n := Names{Catalogs: []string{"default", "other"}, Default: "default"}
	for name, full := range map[string]string{
		"ml.events": "default.ml.events", "other.ml.events": "other.ml.events", "other.events": "default.other.events",
		"default.events": "default.default.events", "x.y.z": "default.x.y.z", "events": "default.events",
	} {
		require.Equal(t, full, n.Full(name))
	}
	require.Equal(t, "ml.events", Names{Catalogs: []string{"a", "b"}}.Full("ml.events"))
	require.Equal(t, "a.ml.events", Names{Catalogs: []string{"a", "b"}}.Full("a.ml.events"))
	for text, pattern := range map[string]string{"*": "*", "ml.*": "default.ml.*", "other.ml.*": "other.ml.*", "ml.a_*": "default.ml.a_*", "other.*": "", "events": "", "m*.a": ""} {
		got, wrong := n.Pattern(text)
		require.Equal(t, pattern, got)
		require.Equal(t, pattern == "", wrong != "")
	}
}

// Names of read that match no dataset are found, each once; "*" always may match.
func TestNamesThatMatchNoDataset(t *testing.T) {
	require.Equal(t, []string{"ads_*", "late"}, sample().Unmatched([]string{"home", "ads"}))
	require.Empty(t, sample().Unmatched([]string{"home", "ads_eu", "late"}))
	require.Equal(t, []string{"home", "ads_*", "late"}, sample().Unmatched(nil))
	require.Empty(t, Open(true).Unmatched(nil))
}

// The first rule that names the client and the table decides alone.
//
// spec: stage-69
func TestWhoMayWriteWhat(t *testing.T) {
	p := sample()
	p.Rules[0].Write, p.Rules[0].Allow = []string{"lake.features.ads_*"}, []Permission{Stage, Publish}
	p.Rules[1].Write = []string{"*"}
	p.Rules[2].Write, p.Rules[2].Allow = []string{"lake.features.*"}, []Permission{Stage}
	p.Rules = append(p.Rules, AccessRule{Groups: []string{"ads"}, Write: []string{"lake.features.*"}, Allow: []Permission{Publish}})
	platform := identity.Caller{Subject: "x", Claims: map[string][]string{"team": {"infra"}}}
	for _, c := range []struct {
		who    identity.Caller
		table  string
		action Permission
		may    bool
	}{
		{someone("ranker"), "features.ads_clicks", Stage, true},
		{someone("ranker"), "lake.features.ads_clicks", Publish, true},
		{someone("ranker"), "features.history", Stage, true},
		{someone("ranker"), "features.history", Publish, false},
		{someone("ranker"), "ml.impressions", Stage, false},
		{someone("ranker"), "other.features.ads_clicks", Stage, false},
		{someone("ranker"), "features.ads_clicks", Reading, false},
		{someone("guest"), "features.ads_clicks", Stage, false},
		{platform, "other.ml.anything", Publish, true},
		{platform, "ml.anything", Explain, false},
	} {
		require.Equal(t, c.may, p.Write(c.who, c.table, c.action), "%v %s %s", c.who, c.table, c.action)
	}
	p.Rules = []AccessRule{
		{Subjects: []string{"*"}, Write: []string{"lake.ml.Golden"}, Allow: []Permission{Publish}},
		{Subjects: []string{"*"}, Write: []string{"lake.ml.*"}, Allow: []Permission{Stage}},
	}
	require.False(t, p.Write(someone("x"), "ml.golden", Stage), "a name in another case is no way around a rule")
	require.False(t, p.Write(someone("x"), "ml.golden", Publish), "nor to what the rule allows")
	require.True(t, p.Write(someone("x"), "ml.Golden", Publish))
	require.True(t, p.Write(someone("x"), "ml.other", Stage))
	require.False(t, Open(false).Write(someone(""), "ml.a", Stage))
	require.True(t, Open(true).Write(someone(""), "ml.a", Stage))
	require.True(t, p.Has(home(), "lake.ml.impressions"))
	require.True(t, p.Has(home(), "features.history"))
	require.False(t, p.Has(home(), "other.ml.impressions"))
}

// A random value that no row has keeps a filter from being guessed by the ids that depend on it.
//
// spec: access-30
func TestRandomValuesInFiltersCountInIDs(t *testing.T) {
	digest := func(filter string) string {
		p := &Policy{Rules: []AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}, Tables: []TableLimits{{Name: "ml.impressions", Filter: datasettest.Filter(filter)}}}}}
		rights, may := p.Read(someone("a"), "home")
		require.True(t, may)
		d := rights.Filtered(home())
		require.NotEqual(t, d.Digest(), d.RowsDigest(func(int) bool { return false }), "without its entry")
		return d.Digest() + d.RowsDigest(func(int) bool { return false })
	}
	guess := digest("country = 'DE'")
	require.Equal(t, guess, digest("country='DE'"), "servers agree")
	secret := digest("country = 'DE' OR country = '5b0f1c94e0a24d7f9a3f7c21d6e8b05c'")
	other := digest("country = 'DE' OR country = '6b0f1c94e0a24d7f9a3f7c21d6e8b05c'")
	const half = 32
	for _, from := range []int{0, half} {
		require.NotEqual(t, guess[from:from+half], secret[from:from+half])
		require.NotEqual(t, secret[from:from+half], other[from:from+half])
	}
}
