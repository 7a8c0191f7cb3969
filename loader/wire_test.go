package loader_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// TestIndexedExpandsToPlain reads cases in both forms: the same schema, rows,
// batches, cursors and report once staging columns are back in their rows.
//
// spec: wire-1, wire-4, wire-5
func TestIndexedExpandsToPlain(t *testing.T) {
	t.Parallel()
	saved := false
	for _, c := range generated(t, thorough(12, 300), func(*scenario.Case) {}) {
		m := made(t, c)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: m.World, Scan: m.Scan})
		q := c.Query
		q.Wire = dataset.WirePlain
		want, err := scenario.Read(context.Background(), l, q)
		require.NoError(t, err, c.Name)
		q.Wire = dataset.WireIndexed
		got, err := scenario.Read(context.Background(), l, q)
		require.NoError(t, err, c.Name)
		require.Len(t, got, len(want))
		for i := range got {
			require.True(t, want[i].Schema.Equal(scenario.Expanded(got[i].Schema)), "%s: %s", c.Name, got[i].Schema)
			require.Len(t, got[i].Batches, len(want[i].Batches), c.Name)
			for k, b := range got[i].Batches {
				require.Equal(t, scenario.Texts(want[i].Batches[k]), scenario.Texts(b), "%s, batch %d", c.Name, k)
			}
			require.Equal(t, want[i].Cursors, got[i].Cursors, c.Name)
			for name, counts := range got[i].Report.Staging {
				require.LessOrEqual(t, counts.Sent, got[i].Report.Rows, c.Name)
				saved = saved || counts.Sent < got[i].Report.Rows
				require.Equal(t, want[i].Report.Staging[name].Counts, counts.Counts, c.Name)
			}
			// What is read ahead for rows that a filter drops depends on time.
			want[i].Report.Staging, got[i].Report.Staging = nil, nil
			require.Equal(t, want[i].Report, got[i].Report, c.Name)
		}
	}
	require.True(t, saved)
}

// TestIndexedColumns: the schema is planned as it is sent, and a staging table
// whose name is a column's cannot be a column.
//
// spec: wire-1, wire-6
func TestIndexedColumns(t *testing.T) {
	t.Parallel()
	c, err := scenario.Random(3, scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{4, 2}})
	require.NoError(t, err)
	defer c.Release()
	l, q := c.Loader(), dataset.Query{Dataset: "d", Wire: dataset.WireIndexed}
	p, err := l.Plan(context.Background(), q)
	require.NoError(t, err)
	schema, err := p.Schema(nil, q.Wire)
	require.NoError(t, err)
	plain, err := p.Schema(nil, dataset.WirePlain)
	require.NoError(t, err)
	require.True(t, plain.Equal(scenario.Expanded(schema)))
	shards, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	require.True(t, schema.Equal(shards[0].Schema), "%s\n%s", schema, shards[0].Schema)

	for i := range c.Dataset.Staging {
		c.Dataset.Staging[i].Name = "item"
		_, err = scenario.Read(context.Background(), c.Loader(), q)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "wire: indexed names a column after the staging table item")
		q.Columns = []dataset.Column{{Column: "request_id"}}
		shards, err = scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err, "no column of the staging table is asked for")
		require.Equal(t, 1, shards[0].Schema.NumFields())
		break
	}
}
