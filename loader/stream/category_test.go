package stream_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/resolve"
)

// withCategories returns a query with the columns of another one, in which some columns of texts are
// twice, and a query in which some of them are categories. It returns false if there are no texts.
func withCategories(t *testing.T, r *rand.Rand, l *loader.Loader, q dataset.Query) (texts, categories dataset.Query, some bool) {
	t.Helper()
	q.Wire = dataset.WirePlain
	p, err := l.Plan(context.Background(), q)
	require.NoError(t, err)
	texts, categories = q, q
	texts.Columns, categories.Columns = nil, nil
	for _, o := range p.Outputs {
		if o.Dense != nil {
			continue
		}
		one := dataset.Column{Column: o.Name}
		for _, asked := range q.Columns {
			if asked.Output() == o.Name {
				one = asked
			}
		}
		names := []string{one.Name}
		text := o.Type().ID() == arrow.STRING
		if text && r.IntN(4) == 0 {
			names = append(names, "again_"+o.Name)
		}
		for _, name := range names {
			one.Name = name
			texts.Columns = append(texts.Columns, one)
			category := one
			if text && r.IntN(4) > 0 {
				category.As, some = dataset.Category, true
			}
			categories.Columns = append(categories.Columns, category)
		}
	}
	return texts, categories, some
}

// requireCategories compares streams with and without categories.
func requireCategories(t *testing.T, name string, l *loader.Loader, texts, categories dataset.Query) {
	t.Helper()
	planned, err := l.Plan(context.Background(), categories)
	require.NoError(t, err, name)
	plain, err := l.Plan(context.Background(), texts)
	require.NoError(t, err, name)
	require.Equal(t, []any{plain.ID, plain.FilesID, plain.BatchRows}, []any{planned.ID, planned.FilesID, planned.BatchRows})
	schema, err := planned.Schema(categories.Selection(), categories.Wire)
	require.NoError(t, err, name)
	for i, f := range schema.Fields() {
		if planned.Outputs[i].Category {
			require.True(t, arrow.TypeEqual(batch.Coded(arrow.BinaryTypes.String), f.Type), name)
		}
	}
	want, err := scenario.Read(context.Background(), l, texts)
	require.NoError(t, err, name)
	got, err := scenario.Read(context.Background(), l, categories)
	require.NoError(t, err, name)
	require.Len(t, got, len(want), name)
	for i := range got {
		if categories.Wire == dataset.WirePlain {
			require.True(t, schema.Equal(got[i].Schema), "%s: %s is not %s", name, got[i].Schema, schema)
			for of, counts := range got[i].Report.Staging {
				require.Equal(t, want[i].Report.Staging[of].Counts, counts.Counts, name)
			}
			texts, codes := want[i].Report, got[i].Report
			texts.Staging, codes.Staging = nil, nil // what is read ahead depends on timing
			require.Equal(t, texts, codes, name)
		}
		asTexts := got[i]
		asTexts.Schema = valueSchema(got[i].Schema)
		requireExpanded(t, name, want[i], asTexts)
	}
}

// valueSchema returns a schema with categories as texts.
func valueSchema(schema *arrow.Schema) *arrow.Schema {
	fields := schema.Fields()
	for i := range fields {
		fields[i].Type = batch.ValueType(fields[i].Type)
	}
	return arrow.NewSchema(fields, nil)
}

// TestCategoriesAreTheTexts reads random cases with and without categories, and checks that plan, rows,
// batches, cursors and report are the same, and that each dictionary has the values of its batch's rows
// alone, in the order of their first row. Sources have other dictionaries in each batch, or none.
//
// spec: wire-48, wire-49, wire-50
func TestCategoriesAreTheTexts(t *testing.T) {
	t.Parallel()
	r, seen := rand.New(rand.NewPCG(46, 1)), 0
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 16, 300), func(*scenario.Case) {}) {
		m := loadertest.Made(t, c)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: m.World, Scan: m.Scan})
		if c.Query.Wire.Grouped() {
			c.Query.Wire = dataset.WirePlain
		}
		texts, categories, some := withCategories(t, r, l, c.Query)
		if !some {
			continue
		}
		seen++
		requireCategories(t, c.Name, l, texts, categories)
		categories.Wire = dataset.WireAuto
		requireCategories(t, c.Name, l, texts, categories)
	}
	require.True(t, seen > 2 || share > 1)
}

// TestCategoriesBesideIndexedColumns checks that with wire: indexed a training column can be a category,
// and that other columns cannot: of a staging table, or of requests. With auto, neither is then indexed.
//
// spec: wire-51
func TestCategoriesBesideIndexedColumns(t *testing.T) {
	t.Parallel()
	ctx, own, staged, requests := context.Background(), 0, 0, 0
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 24, 300), func(*scenario.Case) {}) {
		m := loadertest.Made(t, c)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: m.World, Scan: m.Scan})
		q := c.Query
		q.Wire = dataset.WirePlain
		p, err := l.Plan(ctx, q)
		require.NoError(t, err)
		for _, o := range p.Outputs {
			if o.Dense != nil || o.Type().ID() != arrow.STRING {
				continue
			}
			q.Columns, q.Dense = []dataset.Column{{Column: o.Name, As: dataset.Category}}, nil
			for _, asked := range c.Query.Columns {
				if asked.Output() == o.Name {
					q.Columns[0].Column, q.Columns[0].Expr = asked.Column, asked.Expr
				}
			}
			q.Wire = dataset.WirePlain
			texts := q
			texts.Columns = []dataset.Column{{Column: q.Columns[0].Column, Expr: q.Columns[0].Expr}}
			q.Wire = dataset.WireAuto
			requireCategories(t, c.Name, l, texts, q)
			shards, err := scenario.Read(ctx, l, q)
			require.NoError(t, err)
			require.Empty(t, shards[0].Report.Indexed, c.Name)
			q.Wire = dataset.WireIndexed
			if o.Table == resolve.TrainingTable && !o.Request {
				own++
				requireCategories(t, c.Name, l, texts, q)
				continue
			}
			_, err = scenario.Read(ctx, l, q)
			require.Equal(t, fault.Invalid, fault.KindOf(err), c.Name)
			require.ErrorContains(t, err, "as: category")
			if o.Request {
				requests++
			} else {
				staged++
			}
		}
	}
	require.True(t, own*staged*requests > 0 || share > 1)
}
