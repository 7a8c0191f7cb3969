package dataset_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// configured returns a dataset with a key, and one without.
func configured() []dataset.Dataset {
	training := dataset.Training{Table: "ml.t"}
	return []dataset.Dataset{
		dataset.Dataset{Name: "d", Training: training, Key: []string{"k"}, Staging: []dataset.Staging{{Table: "features.s"}}}.Defaults(),
		dataset.Dataset{Name: "keyless", Training: training}.Defaults(),
	}
}

// TestEntriesOfAQueryAreBehindThoseOfItsDataset checks what an added entry has of its dataset, and that the configured dataset
// stays as it is.
//
// spec: resolve-91, resolve-92
func TestEntriesOfAQueryAreBehindThoseOfItsDataset(t *testing.T) {
	t.Parallel()
	all := configured()
	r := dataset.Query{Rows: dataset.Rows{Dataset: "d", With: []dataset.Staging{
		{Table: "features.a"},
		{Table: "features.b", Name: "other", Key: []dataset.KeyPair{{Training: "k", Staging: "l"}}, Ref: dataset.Ref{Name: "trial"}},
	}}}.Defaults().Rows
	got, added, err := r.DatasetOf(all)
	require.NoError(t, err)
	require.Equal(t, 2, added)
	want := all[0]
	want.Staging = append(want.Staging[:1:1],
		dataset.Staging{Table: "features.a"}, dataset.Staging{Table: "features.b", Name: "other", Key: []dataset.KeyPair{{Training: "k", Staging: "l"}}, Ref: dataset.Ref{Name: "trial"}})
	require.Equal(t, want.Defaults(), got)
	require.Equal(t, want.Defaults().Digest(), got.Digest())
	require.Equal(t, configured(), all)
}

// TestEntriesThatCannotBeAdded checks the faults of entries that do not fit the dataset.
//
// spec: resolve-92, resolve-93
func TestEntriesThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	many := make([]dataset.Staging, dataset.MaxStaging)
	for i := range many {
		many[i] = dataset.Staging{Table: fmt.Sprintf("features.t%d", i)}
	}
	for _, c := range []struct {
		of    string
		with  []dataset.Staging
		field string
		says  string
	}{
		{"d", []dataset.Staging{{Table: "features.a"}, {Table: "other.s"}}, "with[1].name", `dataset d already has an entry "s"`},
		{"keyless", []dataset.Staging{{Table: "features.a"}}, "with[0].key", "dataset keyless has no key"},
		{"d", many, "with", "dataset d would have 65 staging tables, more than 64"},
	} {
		_, _, err := dataset.Rows{Dataset: c.of, With: c.with}.DatasetOf(configured())
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Equal(t, c.field, fault.As(err).Faults[0].Field)
		require.ErrorContains(t, err, c.says)
	}
	_, _, err := dataset.Rows{Dataset: "e", With: many}.DatasetOf(configured())
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	got, _, err := dataset.Rows{Dataset: "d", With: many[1:]}.DatasetOf(configured())
	require.NoError(t, err)
	require.Len(t, got.Staging, dataset.MaxStaging)
}

// TestAnEntryThatTheDatasetHasIsNotAdded checks that a query may still add an entry once the dataset has an equal one in its
// configuration, and that an entry with another meaning is refused with the fields that differ, and without their values.
//
// spec: resolve-92, resolve-116, resolve-117
func TestAnEntryThatTheDatasetHasIsNotAdded(t *testing.T) {
	t.Parallel()
	own := dataset.Staging{Table: "features.s", Name: "trial", Filter: datasettest.Filter("a > 1 AND b > 2"), Columns: []dataset.Column{{Column: "a"}}}
	d := dataset.Dataset{
		Name: "d", Training: dataset.Training{Table: "ml.t"}, Key: []string{"k"},
		Staging: []dataset.Staging{{Table: "features.first"}, own, {Table: "features.last"}},
	}.Defaults()
	with := func(change func(*dataset.Staging)) dataset.Rows {
		s := own
		change(&s)
		return dataset.Query{Rows: dataset.Rows{Dataset: "d", With: []dataset.Staging{s, {Table: "features.more"}}}}.Defaults().Rows
	}
	for name, change := range map[string]func(*dataset.Staging){
		"the same": func(*dataset.Staging) {},
		"defaults written out": func(s *dataset.Staging) {
			s.Key, s.Ref.Name, s.MaxAmplification = []dataset.KeyPair{{Training: "k", Staging: "k"}}, "main", dataset.DefaultMaxAmplification
		},
		"another text of the filter": func(s *dataset.Staging) { s.Filter = datasettest.Filter("(a>1) and b>2") },
	} {
		all, added, err := with(change).DatasetOf([]dataset.Dataset{d})
		require.NoError(t, err, name)
		require.Equal(t, 1, added, name)
		require.Equal(t, append(d.Staging[:3:3], dataset.Dataset{Key: d.Key, Staging: []dataset.Staging{{Table: "features.more"}}}.Defaults().Staging...), all.Staging, name)
	}
	for differs, change := range map[string]func(*dataset.Staging){
		"table":              func(s *dataset.Staging) { s.Table = "features.trial" },
		"ref":                func(s *dataset.Staging) { s.Ref.Name = "audit" },
		"snapshot":           func(s *dataset.Staging) { s.Ref.Snapshot = 7 },
		"filter":             func(s *dataset.Staging) { s.Filter = dataset.Filter{} },
		"columns":            func(s *dataset.Staging) { s.Columns = nil },
		"key":                func(s *dataset.Staging) { s.Key = []dataset.KeyPair{{Training: "k", Staging: "id"}} },
		"min_match":          func(s *dataset.Staging) { s.AnyMatch = true },
		"columns, prefix":    func(s *dataset.Staging) { s.Columns, s.Prefix = []dataset.Column{}, "x_" },
		"matched_as, prefix": func(s *dataset.Staging) { s.MatchedAs, s.Prefix = "m", "x_" },
	} {
		_, _, err := with(change).DatasetOf([]dataset.Dataset{d})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Equal(t, []fault.Field{{
			Field:   "with[0].name",
			Message: `dataset d already has an entry "trial", which differs in ` + differs + "; leave this one out, or give it another name",
		}}, fault.As(err).Faults)
	}
	require.True(t, with(func(*dataset.Staging) {}).GivesEntry("more"))
	require.False(t, with(func(*dataset.Staging) {}).GivesEntry("first"))
}

// TestTablesOfAClientsOwnDefinition checks which tables of a query a server did not configure.
//
// spec: resolve-95
func TestTablesOfAClientsOwnDefinition(t *testing.T) {
	t.Parallel()
	require.Empty(t, dataset.Rows{Dataset: "d"}.ClientTables())
	require.Equal(t, []string{"features.a", "features.b"}, dataset.Rows{Dataset: "d", With: []dataset.Staging{{Table: "features.a"}, {Table: "features.b"}}}.ClientTables())
	require.Equal(t, []string{"ml.t", "features.s"}, dataset.Rows{Inline: &configured()[0]}.ClientTables())
}

// TestFaultsOfAddedEntriesNameThem checks that faults of a bound dataset name an added entry by its place in the query.
//
// spec: resolve-93
func TestFaultsOfAddedEntriesNameThem(t *testing.T) {
	t.Parallel()
	r := dataset.Rows{With: []dataset.Staging{{Name: "x"}, {Name: "y"}, {Name: "z"}}}
	d := dataset.Dataset{Staging: make([]dataset.Staging, 13)}
	d.Staging[11].Name, d.Staging[12].Name = "x", "y"
	err := r.WithFields(fault.Fields([]fault.Field{
		{Field: "staging[0].key", Message: "a"}, {Field: "staging[11].filter", Message: "b"}, {Field: "staging[12]", Message: "c"},
	}), d)
	e := fault.As(err)
	require.Equal(t, []fault.Field{{Field: "staging[0].key", Message: "a"}, {Field: "with[0].filter", Message: "b"}, {Field: "with[1]", Message: "c"}}, e.Faults)
	require.Equal(t, "staging[0].key: a; with[0].filter: b; with[1]: c", e.Message)
	require.NoError(t, r.WithFields(nil, d))
	same := fault.InvalidField("staging[12]", "c")
	require.Equal(t, error(same), dataset.Rows{}.WithFields(same, d))
}
