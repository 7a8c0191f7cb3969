package loadertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Written is a table of rows in text form.
type Written struct {
	name, header, spec string
	rows               int
	row                func(i int) string
}

// Rows returns a table of rows in text form. Each of several specs, as
// "bucket(4,id); bucket(2,id)", has all rows.
func Rows(name, header, spec string, rows int, row func(i int) string) Written {
	return Written{name: name, header: header, spec: spec, rows: rows, row: row}
}

// In creates the table.
func (x Written) In(t *testing.T, w *scenario.World) {
	t.Helper()
	fields, err := scenario.Fields(x.header)
	require.NoError(t, err)
	var specs []catalog.Spec
	for text := range strings.SplitSeq(x.spec, "; ") {
		s, err := scenario.Spec(text, fields)
		require.NoError(t, err)
		specs = append(specs, s)
	}
	table, err := w.NewTable(x.name, fields, specs...)
	require.NoError(t, err)
	text := make([]string, x.rows)
	for i := range text {
		text[i] = x.row(i)
	}
	b, err := scenario.Rows(fields, text)
	require.NoError(t, err)
	defer b.Release()
	for i := range specs {
		require.NoError(t, w.Append(table, i, b, 0))
	}
}

// World returns a case without a filter, with two left staging tables.
func World(t *testing.T) *scenario.Made {
	t.Helper()
	c, err := scenario.Random(Seeds(t, 1, scenario.Shape{TrainingBuckets: 8, StagingBuckets: []int{4, 12}})[0],
		scenario.Shape{TrainingBuckets: 8, StagingBuckets: []int{4, 12}})
	require.NoError(t, err)
	c.Dataset.Training.Filter = dataset.Filter{}
	for i := range c.Dataset.Staging {
		s := &c.Dataset.Staging[i]
		s.Join, s.Missing, s.Duplicates, s.Filter = rule.Left, rule.MissingNull, rule.DuplicatesFirst, dataset.Filter{}
	}
	t.Cleanup(c.Release)
	return c
}
