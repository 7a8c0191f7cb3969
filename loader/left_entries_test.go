package loader_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestLeftEntriesMayChangeUnderACursor checks that a cursor resumes with the next row
// after left entries are added, removed or changed, and is refused after a change of an
// entry that affects rows.
//
// spec: cursor-28
func TestLeftEntriesMayChangeUnderACursor(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	with := func(change func(d *dataset.Dataset)) *dataset.Dataset {
		d := c.Dataset
		d.Name, d.Staging = "", slices.Clone(d.Staging)
		change(&d)
		return &d
	}
	same := func(*dataset.Dataset) {}
	without := func(d *dataset.Dataset) { d.Staging = d.Staging[:1] }
	query := func(d *dataset.Dataset, filter string) dataset.Query {
		q := dataset.Query{
			Rows:    dataset.Rows{Inline: d},
			Reading: dataset.Reading{Columns: []dataset.Column{{Column: "item"}}, BatchRows: 3, Shard: dataset.Shard{Of: 1}},
		}
		if filter != "" {
			q.Filter = datasettest.Filter(filter)
		}
		return q
	}
	const named = "s1_u IS NULL OR s1_u IS NOT NULL" // all rows
	for _, test := range []struct {
		name          string
		before, after func(d *dataset.Dataset)
		filter        string
		differs       []string // nil: the cursor resumes
	}{
		{name: "unchanged", before: same, after: same},
		{name: "a left entry less", before: same, after: without},
		{name: "a left entry more", before: without, after: same},
		{name: "another rule of a left entry", before: same, after: func(d *dataset.Dataset) { d.Staging[1].Duplicates = rule.DuplicatesLast }},
		{name: "another name of a left entry", before: same, after: func(d *dataset.Dataset) { d.Staging[1].Name = "renamed" }},
		{name: "columns that are constant within a request", before: same, after: func(d *dataset.Dataset) { d.Training.RequestLevel = []string{d.Key[0]} }},
		{name: "a left entry that is inner now", before: same, after: func(d *dataset.Dataset) { d.Staging[1].Join = rule.Inner }, differs: []string{"dataset"}},
		{name: "an entry that repeats rows", before: same, after: func(d *dataset.Dataset) { d.Staging[1].Duplicates = rule.DuplicatesAll }, differs: []string{"dataset"}},
		{
			name:   "an inner entry less",
			before: func(d *dataset.Dataset) { d.Staging[1].Join = rule.Inner }, after: without, differs: []string{"dataset", "staging (s0, s1, not s0)"},
		},
		{name: "another rule of an entry that the filter names", filter: named, before: same, after: func(d *dataset.Dataset) { d.Staging[1].Duplicates = rule.DuplicatesLast }, differs: []string{"dataset"}},
		{name: "another rule of an entry that the filter does not name", filter: named, before: same, after: func(d *dataset.Dataset) { d.Staging[0].Duplicates = rule.DuplicatesLast }},
	} {
		all, err := scenario.Read(t.Context(), c.Loader(), query(with(test.before), test.filter))
		require.NoError(t, err, test.name)
		rows := scenario.Texts(all[0].Rows())
		require.Greater(t, len(rows), 6, test.name)
		resumed := query(with(test.after), "")
		resumed.Cursor = dataset.Cursors{all[0].Cursors[1]}
		rest, err := scenario.Read(t.Context(), c.Loader(), resumed)
		if test.differs == nil {
			require.NoError(t, err, test.name)
			require.Equal(t, rows[6:], scenario.Texts(rest[0].Rows()), test.name)
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), test.name)
		got := fault.As(err).Differs
		require.Len(t, got, len(test.differs), "%s: %v", test.name, got)
		for i, want := range test.differs {
			require.Contains(t, got[i], want, test.name)
		}
	}
}
