package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// small returns a case with a training table of three requests on two days, and a staging
// table with a duplicate, a null and a key without training rows.
func small(change func(*Case)) *Case {
	c := &Case{
		Name: "d",
		Training: Table{
			Name: "ml.train", Header: "k:string day:date item:long! label:long", Specs: []string{"day bucket(2,k)"},
			Commits: []Commit{{Lines: []string{"a 2024-01-02 1 0", "b 2024-01-02 2 -", "- 2024-01-02 3 1"}}, {Lines: []string{"a 2024-01-03 4 1"}}},
		},
		Staging: []Table{{
			Name: "f.s", Header: "k:string day:date v:long t:list<long> label:long", Specs: []string{"bucket(3,k)", "day bucket(2,k)"},
			Commits: []Commit{
				{Spec: 1, Lines: []string{"a 2024-01-01 10 [1,2,3] 7", "a 2024-01-03 30 [] -"}},
				{Spec: 1, Lines: []string{"a 2024-01-02 - - 9", "- 2024-01-02 50 - 0", "x 2024-01-02 60 - 0"}},
			},
		}},
		Dataset: dataset.Dataset{
			Name: "d", Key: []string{"k"}, Training: dataset.Training{Table: "ml.train"},
			Staging: []dataset.Staging{{
				Table: "f.s", Name: "s", Key: []dataset.KeyPair{{Training: "k", Staging: "k"}}, Join: rule.Left,
				Duplicates: rule.DuplicatesFirst, Columns: []dataset.Column{{Column: "v"}},
			}},
		},
		Query: dataset.Query{Reading: dataset.Reading{Columns: []dataset.Column{{Column: "item"}, {Column: "v"}}}},
	}
	change(c)
	return c
}

// TestOracleAgainstHandComputedRows: training rows 1 and 4 have key a, which has the
// values 10, 30 and null; row 2 has key b, which is missing, and row 3 has no key.
func TestOracleAgainstHandComputedRows(t *testing.T) {
	t.Parallel()
	entry := func(change func(*dataset.Staging)) func(*Case) {
		return func(c *Case) { change(&c.Dataset.Staging[0]) }
	}
	align := func(rule dataset.AlignRule, days int) func(*Case) {
		return entry(func(s *dataset.Staging) {
			s.Align = &dataset.Align{Training: "day", Staging: "day", Rule: rule, Lag: dataset.Lag{Time: time.Duration(days) * 24 * time.Hour}}
		})
	}
	inTime := func(tolerance time.Duration, exact bool) func(*Case) {
		return entry(func(s *dataset.Staging) {
			s.PointInTime = &dataset.PointInTime{Training: "day", Staging: "day", Tolerance: dataset.Lag{Time: tolerance}, Exact: exact}
		})
	}
	for name, test := range map[string]struct {
		change func(*Case)
		want   string
	}{
		"first":   {func(*Case) {}, "1 10, 2 -, 3 -, 4 10"},
		"last":    {entry(func(s *dataset.Staging) { s.Duplicates = rule.DuplicatesLast }), "1 -, 2 -, 3 -, 4 -"},
		"all":     {entry(func(s *dataset.Staging) { s.Duplicates = rule.DuplicatesAll }), "1 10, 1 30, 1 -, 2 -, 3 -, 4 10, 4 30, 4 -"},
		"error":   {entry(func(s *dataset.Staging) { s.Duplicates = rule.DuplicatesError }), "fails: a key is duplicate in s"},
		"missing": {entry(func(s *dataset.Staging) { s.Missing = rule.MissingError }), "fails: a key is missing in s"},
		"error, not asked for": {func(c *Case) {
			c.Dataset.Staging[0].Duplicates, c.Query.Columns = rule.DuplicatesError, c.Query.Columns[:1]
		}, "1, 2, 3, 4"},
		"error, of an inner join that is not asked for": {func(c *Case) {
			c.Dataset.Staging[0].Duplicates, c.Dataset.Staging[0].Join, c.Query.Columns = rule.DuplicatesError, rule.Inner, c.Query.Columns[:1]
		}, "1, 4"},
		"error, asked for by a filter": {func(c *Case) {
			c.Dataset.Staging[0].Duplicates, c.Query.Columns, c.Query.Filter = rule.DuplicatesError, c.Query.Columns[:1], datasettest.Filter("v IS NULL OR v > 0")
		}, "fails: a key is duplicate in s"},
		"error, asked for as a match": {func(c *Case) {
			c.Dataset.Staging[0].Duplicates, c.Dataset.Staging[0].MatchedAs, c.Query.Columns[1].Column = rule.DuplicatesError, "found", "found"
		}, "fails: a key is duplicate in s"},
		"error, of an overlay of a column that is not asked for": {func(c *Case) {
			c.Dataset.Staging[0].Join, c.Dataset.Staging[0].Columns = rule.Overlay, []dataset.Column{{Column: "label"}}
			c.Dataset.Staging[0].Duplicates, c.Query.Columns = rule.DuplicatesError, c.Query.Columns[:1]
		}, "1, 2, 3, 4"},
		"error, of an overlay of a column that is asked for": {func(c *Case) {
			c.Dataset.Staging[0].Join, c.Dataset.Staging[0].Columns = rule.Overlay, []dataset.Column{{Column: "label"}}
			c.Dataset.Staging[0].Duplicates, c.Query.Columns[1].Column = rule.DuplicatesError, "label"
		}, "fails: a key is duplicate in s"},
		"missing, not asked for": {func(c *Case) {
			c.Dataset.Staging[0].Missing, c.Query.Columns = rule.MissingError, c.Query.Columns[:1]
		}, "fails: a key is missing in s"},
		"by value":            {entry(func(s *dataset.Staging) { s.OrderBy = []dataset.OrderBy{{Column: "v", Descending: true}} }), "1 30, 2 -, 3 -, 4 30"},
		"inner":               {entry(func(s *dataset.Staging) { s.Join = rule.Inner }), "1 10, 4 10"},
		"semi":                {func(c *Case) { c.Dataset.Staging[0].Join = rule.Semi; c.Query.Columns = c.Query.Columns[:1] }, "1, 4"},
		"anti":                {func(c *Case) { c.Dataset.Staging[0].Join = rule.Anti; c.Query.Columns = c.Query.Columns[:1] }, "2, 3"},
		"staging filter":      {entry(func(s *dataset.Staging) { s.Filter = datasettest.Filter("v > 10") }), "1 30, 2 -, 3 -, 4 30"},
		"filter before":       {func(c *Case) { c.Query.Filter = datasettest.Filter("label = 1") }, "3 -, 4 10"},
		"filter after":        {func(c *Case) { c.Query.Filter = datasettest.Filter("v IS NULL AND item < 3") }, "2 -"},
		"a rate":              {func(c *Case) { c.Query.Sample = &dataset.Sample{Rate: noRate, Where: datasettest.Filter("label = 1")} }, "1 10, 2 -"},
		"a rate of all":       {func(c *Case) { c.Query.Sample = &dataset.Sample{Rate: 1, Where: datasettest.Filter("label = 1")} }, "1 10, 2 -, 3 -, 4 10"},
		"a field of a struct": {func(c *Case) { c.Query.Filter = datasettest.Filter("label = 1 OR t.a IS NULL") }, "fails: a filter names t.a, a field of a struct"},
		"two NOT": {func(c *Case) {
			c.Query.Filter = datasettest.Filter("NOT (NOT (item < 3 AND v IS NULL))")
			c.Dataset.Staging[0].Missing = rule.MissingError // of rows that reach the joins
		}, "fails: a key is missing in s"},
		"align same":       {align(dataset.AlignSame, 0), "1 -, 2 -, 3 -, 4 30"},
		"align lag":        {align(dataset.AlignLag, 1), "1 10, 2 -, 3 -, 4 -"},
		"align latest":     {align(dataset.AlignLatestBefore, 0), "1 10, 2 -, 3 -, 4 -"},
		"in time":          {inTime(48*time.Hour, true), "1 -, 2 -, 3 -, 4 30"},
		"in time, before":  {inTime(48*time.Hour, false), "1 10, 2 -, 3 -, 4 -"},
		"in time, too old": {inTime(23*time.Hour, false), "1 -, 2 -, 3 -, 4 -"},
		"distinct, first": {func(c *Case) {
			c.Dataset.Training.Distinct = &dataset.Distinct{By: []string{"k"}, Keep: dataset.KeepFirst}
		}, "1 10, 2 -, 3 -"},
		"distinct, last": {func(c *Case) {
			c.Dataset.Training.Distinct = &dataset.Distinct{By: []string{"k"}, Keep: dataset.KeepLast}
		}, "2 -, 3 -, 4 10"},
		"distinct partition": {func(c *Case) {
			c.Dataset.Training.Distinct = &dataset.Distinct{By: []string{"k"}, Keep: dataset.KeepLast, Scope: dataset.ScopePartition}
		}, "1 10, 2 -, 3 -, 4 10"},
		"default": {entry(func(s *dataset.Staging) {
			s.Missing, s.Defaults = rule.MissingDefault, []dataset.Default{{Column: "v", Value: int64(-1)}}
			s.Duplicates = rule.DuplicatesLast
		}), "1 -, 2 -1, 3 -1, 4 -"},
		"overlay": {func(c *Case) {
			c.Dataset.Staging[0].Join, c.Dataset.Staging[0].Columns = rule.Overlay, []dataset.Column{{Column: "label"}}
			c.Query.Columns[1].Column = "label"
		}, "1 7, 2 -, 3 1, 4 7"},
		"overlay with a null": {func(c *Case) {
			c.Dataset.Staging[0].Join, c.Dataset.Staging[0].Columns = rule.Overlay, []dataset.Column{{Column: "label"}}
			c.Dataset.Staging[0].Filter, c.Query.Columns[1].Column = datasettest.Filter("v = 30"), "label"
		}, "1 -, 2 -, 3 1, 4 -"},
		"overlay keeps": {func(c *Case) {
			c.Dataset.Staging[0].Join, c.Dataset.Staging[0].Columns = rule.Overlay, []dataset.Column{{Column: "label"}}
			c.Dataset.Staging[0].Filter, c.Query.Columns[1].Column = datasettest.Filter("v = 30"), "label"
			c.Dataset.Staging[0].Nulls = rule.NullsKeep
		}, "1 0, 2 -, 3 1, 4 1"},
		"matched": {func(c *Case) {
			c.Dataset.Staging[0].MatchedAs, c.Query.Columns[1].Column = "has", "has"
		}, "1 true, 2 false, 3 false, 4 true"},
		"shaped": {entry(func(s *dataset.Staging) { s.Columns = []dataset.Column{{Column: "t", Name: "v", Last: 2}} }), "1 [2,3], 2 -, 3 -, 4 [2,3]"},
		"cast":   {entry(func(s *dataset.Staging) { s.Columns[0].As = "double"; s.Filter = datasettest.Filter("v = 30") }), "1 30, 2 -, 3 -, 4 30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := small(test.change)
			w, err := c.Make()
			require.NoError(t, err)
			defer w.Release()
			got := c.Expect(w)
			text := "fails: " + got.Fails
			if got.Fails == "" {
				text = line(byItem(got.Columns, got.Rows))
			}
			require.Equal(t, test.want, text)
		})
	}
}

func line(rows [][]any) string {
	var lines []string
	for _, row := range rows {
		words := make([]string, len(row))
		for i, v := range row {
			words[i] = word(nil, v)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, ", ")
}

// TestShrink shrinks a case that fails if a certain training row is joined to a certain
// staging row.
func TestShrink(t *testing.T) {
	t.Parallel()
	fails := func(c *Case) bool {
		w, err := c.Make()
		require.NoError(t, err)
		defer w.Release()
		for _, row := range c.Expect(w).Rows {
			if fmt.Sprint(row) == "[1 10]" {
				return true
			}
		}
		return false
	}
	c := small(func(c *Case) {
		c.Query.Filter = datasettest.Filter("item < 4")
		c.Dataset.Staging[0].Filter = datasettest.Filter("v IS NOT NULL")
	})
	require.True(t, fails(c))
	got := c.Shrink(fails)
	require.Equal(t, 1, got.Training.Rows())
	require.Equal(t, 1, got.Staging[0].Rows())
	require.Empty(t, got.Query.Filter)
	require.Empty(t, got.Dataset.Staging[0].Filter)
	text, err := got.Text("Smaller.")
	require.NoError(t, err)
	require.Contains(t, text, "> append ml.train 0\nk:string day:date item:long! label:long\na 2024-01-02 1 0\n")
	require.Equal(t, 4, c.Training.Rows(), "the original case is unchanged")
}

// TestRandomCasesPlayAsScenarioFiles writes random cases as scenario files and runs them.
func TestRandomCasesPlayAsScenarioFiles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		text, err := Generate(seed, 1+int(seed)%16, 4).Text("A case.")
		require.NoError(t, err)
		require.Equal(t, text, play(t, text))
	}
}

// TestGenerateIsDeterministic also makes the tables of the cases.
func TestGenerateIsDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(64) {
		c := Generate(seed, 1+int(seed)%16, 4)
		require.Equal(t, c, Generate(seed, 1+int(seed)%16, 4))
		w, err := c.Make()
		require.NoError(t, err)
		w.Release()
	}
}
