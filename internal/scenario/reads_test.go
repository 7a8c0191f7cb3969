package scenario

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// TestReads lists the columns that cases read.
func TestReads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change            func(*Case)
		training, staging []string
	}{
		"keys and outputs":  {func(*Case) {}, []string{"item", "k"}, []string{"k", "v"}},
		"all training ones": {func(c *Case) { c.Query.Columns = nil }, []string{"day", "item", "k", "label"}, []string{"k", "v"}},
		"no staging ones":   {func(c *Case) { c.Query.Columns = c.Query.Columns[:1] }, []string{"item"}, nil},
		"of an inner join": {func(c *Case) {
			c.Query.Columns, c.Dataset.Staging[0].Join = c.Query.Columns[:1], rule.Inner
		}, []string{"item", "k"}, []string{"k"}},
		"a filter before":   {func(c *Case) { c.Query.Filter = datasettest.Filter("label = 1") }, []string{"item", "k", "label"}, []string{"k", "v"}},
		"a filter of both":  {func(c *Case) { c.Query.Columns, c.Query.Filter = c.Query.Columns[:1], datasettest.Filter("v = label") }, []string{"item", "k", "label"}, []string{"k", "v"}},
		"a staging filter":  {func(c *Case) { c.Dataset.Staging[0].Filter = datasettest.Filter("t IS NULL") }, []string{"item", "k"}, []string{"k", "t", "v"}},
		"a training filter": {func(c *Case) { c.Dataset.Training.Filter = datasettest.Filter("day IS NULL") }, []string{"day", "item", "k"}, []string{"k", "v"}},
		"a sample's filter": {func(c *Case) { c.Query.Sample = &dataset.Sample{Rate: 1, Where: datasettest.Filter("label = 1")} }, []string{"item", "k", "label"}, []string{"k", "v"}},
		"an order":          {func(c *Case) { c.Dataset.Staging[0].OrderBy = []dataset.OrderBy{{Column: "label"}} }, []string{"item", "k"}, []string{"k", "label", "v"}},
		"distinct":          {func(c *Case) { c.Dataset.Training.Distinct = &dataset.Distinct{By: []string{"day"}} }, []string{"day", "item", "k"}, []string{"k", "v"}},
		"a time": {func(c *Case) {
			c.Dataset.Staging[0].PointInTime = &dataset.PointInTime{Training: "day", Staging: "day"}
		}, []string{"day", "item", "k"}, []string{"day", "k", "v"}},
		"an overlaid column": {overlaid, []string{"item", "k", "label"}, []string{"k", "label"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, map[string][]string{"ml.train": test.training, "f.s": test.staging}, small(test.change).Reads())
		})
	}
}

// overlaid asks for a training column that a staging table replaces.
func overlaid(c *Case) {
	c.Dataset.Staging[0].Join, c.Dataset.Staging[0].Columns = rule.Overlay, []dataset.Column{{Column: "label"}}
	c.Query.Columns[1].Column = "label"
}

// TestMisread requests too many and too few columns from a catalog.
func TestMisread(t *testing.T) {
	t.Parallel()
	c := small(func(c *Case) { c.Query.Filter = datasettest.Filter("label = 1") })
	for _, test := range []struct {
		fields []int // by id: k, day, item, label
		want   string
	}{
		{[]int{1, 3, 4}, ""},
		{[]int{1, 3}, ""}, // a filter need not depend on the column
		{[]int{1, 2, 3, 4}, "ml.train: day"},
		{[]int{1, 4}, "ml.train: item"},
	} {
		w, err := c.Make()
		require.NoError(t, err)
		table, err := w.Table(context.Background(), "ml.train", dataset.Ref{})
		require.NoError(t, err)
		_, err = w.Files(context.Background(), table, test.fields, nil)
		require.NoError(t, err)
		require.Equal(t, test.want, c.misread(w).Text)
		w.Release()
	}
}
