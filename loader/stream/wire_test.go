package stream_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestIndexedExpandsToPlain reads cases in all forms and checks that schema, rows,
// batches, cursors and report are the same once the columns of staging tables and
// requests are expanded into rows.
//
// spec: wire-1, wire-4, wire-5, wire-16, wire-18, wire-27
func TestIndexedExpandsToPlain(t *testing.T) {
	t.Parallel()
	saved, requests := false, false
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 12, 300), func(*scenario.Case) {}) {
		m := loadertest.Made(t, c)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: m.World, Scan: m.Scan})
		q := c.Query
		q.Wire = dataset.WirePlain
		want, err := scenario.Read(context.Background(), l, q)
		require.NoError(t, err, c.Name)
		for _, form := range []dataset.Wire{dataset.WireIndexed, dataset.WireAuto} {
			q.Wire = form
			got, err := scenario.Read(context.Background(), l, q)
			require.NoError(t, err, c.Name)
			require.Len(t, got, len(want))
			for i := range got {
				requireExpanded(t, c.Name, want[i], got[i])
				for name, counts := range got[i].Report.Staging {
					require.LessOrEqual(t, counts.Sent, got[i].Report.Rows, c.Name)
					saved = saved || counts.Sent < got[i].Report.Rows
					require.Equal(t, want[i].Report.Staging[name].Counts, counts.Counts, c.Name)
				}
				requests = requests || got[i].Report.Request != nil
				// What is read ahead for rows that a filter drops depends on timing,
				// and what is sent once depends on the form.
				plain, indexed := want[i].Report, got[i].Report
				plain.Staging, indexed.Staging, indexed.Request, indexed.Indexed = nil, nil, nil, nil
				require.Equal(t, plain, indexed, c.Name)
			}
		}
	}
	require.True(t, requests || share > 1)
	require.True(t, saved)
}

// requireExpanded compares a stream of any form with the plain one.
func requireExpanded(t *testing.T, name string, want, got scenario.Shard) {
	t.Helper()
	expanded := scenario.Expanded(got.Schema)
	require.Equal(t, want.Schema.NumFields(), expanded.NumFields(), name)
	order := make([]int, want.Schema.NumFields()) // requests' columns are adjacent
	for i, f := range want.Schema.Fields() {
		at := expanded.FieldIndices(f.Name)
		require.Len(t, at, 1, "%s: %s in %s", name, f.Name, got.Schema)
		require.True(t, f.Equal(expanded.Field(at[0])), "%s: %s", name, got.Schema)
		order[i] = at[0]
	}
	require.Len(t, got.Batches, len(want.Batches), name)
	for k, b := range got.Batches {
		rows := make([][]any, len(b))
		for i, row := range b {
			for _, at := range order {
				rows[i] = append(rows[i], row[at])
			}
		}
		require.Equal(t, scenario.Texts(want.Batches[k]), scenario.Texts(rows), "%s, batch %d", name, k)
	}
	require.Equal(t, want.Cursors, got.Cursors, name)
}

// TestIndexedColumns checks that the planned schema is that of the stream, and that a
// staging table with the name of a column cannot be an indexed column.
//
// spec: wire-1, wire-6
func TestIndexedColumns(t *testing.T) {
	t.Parallel()
	c, err := scenario.Random(3, scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{4, 2}})
	require.NoError(t, err)
	defer c.Release()
	l, q := c.Loader(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Wire: dataset.WireIndexed}}
	p, err := l.Plan(context.Background(), q)
	require.NoError(t, err)
	schema, err := p.Schema(dataset.Selection{}, q.Wire)
	require.NoError(t, err)
	plain, err := p.Schema(dataset.Selection{}, dataset.WirePlain)
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

// TestColumnsThatDifferWithinARequest declares any columns request-level, and checks in
// the plain batches whether they are.
//
// spec: wire-18, wire-19
func TestColumnsThatDifferWithinARequest(t *testing.T) {
	t.Parallel()
	outcomes := map[bool]int{}
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 40, 400), func(c *scenario.Case) {
		c.Query.Dense, c.Query.Columns, c.Dataset.Training.RequestLevel = nil, nil, nil
		c.Query.Wire = dataset.WirePlain
	}) {
		l := loadertest.Made(t, c).Loader()
		plain, err := scenario.Read(context.Background(), l, c.Query)
		require.NoError(t, err, c.Name)
		for _, name := range []string{"p0", "p1", "p2", "tags", "score", "region"} {
			if overlaid(c, name) {
				continue
			}
			d := c.Clone()
			d.Dataset.Training.RequestLevel = []string{name}
			d.Query.Wire = dataset.WireIndexed
			_, err := scenario.Read(context.Background(), loadertest.Made(t, d).Loader(), d.Query)
			same := constant(plain, append([]string{name}, c.Dataset.Key...))
			outcomes[same]++
			if same {
				require.NoError(t, err, "%s: %s", c.Name, name)
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %s", c.Name, name)
			require.ErrorContains(t, err, "column "+name+" of table ml.train is declared request_level")
		}
	}
	require.Greater(t, outcomes[true], 10/share)
	require.Greater(t, outcomes[false], 10/share)
}

// overlaid reports whether a staging table of a case replaces a training column.
func overlaid(c *scenario.Case, name string) bool {
	return slices.ContainsFunc(c.Dataset.Staging, func(s dataset.Staging) bool {
		return s.Join == rule.Overlay && slices.ContainsFunc(s.Columns, func(c dataset.Column) bool { return c.Output() == name })
	})
}

// constant reports whether the first of some columns is constant over the rows of a
// batch with the same values in the other columns, if none of these is null.
func constant(shards []scenario.Shard, names []string) bool {
	for _, s := range shards {
		at := make([]int, len(names))
		for i, name := range names {
			at[i] = s.Schema.FieldIndices(name)[0]
		}
		for _, b := range s.Batches {
			first := map[string]string{}
			for _, row := range b {
				key := make([]any, 0, len(at))
				for _, k := range at[1:] {
					key = append(key, row[k])
				}
				if slices.Contains(key, nil) {
					continue
				}
				texts := scenario.Texts([][]any{key, {row[at[0]]}})
				if known, ok := first[texts[0]]; ok && known != texts[1] {
					return false
				}
				first[texts[0]] = texts[1]
			}
		}
	}
	return true
}

// TestDenseBelongsToTheReading checks that a stream resumes from the cursor of one with
// other dense columns, or with none, at the next row.
//
// spec: wire-28
func TestDenseBelongsToTheReading(t *testing.T) {
	t.Parallel()
	c, err := scenario.Random(3, scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{4, 2}})
	require.NoError(t, err)
	defer c.Release()
	l, q := c.Loader(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 7}}
	packing := q
	packing.Dense = []dataset.Dense{{Name: "x", Columns: []dataset.Column{{Column: "item"}}}}
	packing.Columns = []dataset.Column{{Column: "item"}}
	plain, err := l.Plan(context.Background(), q)
	require.NoError(t, err)
	packed, err := l.Plan(context.Background(), packing)
	require.NoError(t, err)
	require.Equal(t, plain.ID, packed.ID)
	whole, err := scenario.Read(context.Background(), l, packing)
	require.NoError(t, err)
	first, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	packing.Cursor = dataset.Cursors{first[0].Cursors[2]}
	rest, err := scenario.Read(context.Background(), l, packing)
	require.NoError(t, err)
	require.Equal(t, whole[0].Rows()[21:], rest[0].Rows())
	require.Equal(t, []any{float64(float32(whole[0].Rows()[21][0].(int64)))}, rest[0].Rows()[0][1])
}
