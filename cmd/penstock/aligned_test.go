package main

import (
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// days returns a partition spec of identity transforms. sources maps column ids to field names.
func days(sources map[int]string) iceberg.PartitionSpec {
	var fields []iceberg.PartitionField
	for id := 2; id <= 3; id++ {
		if name := sources[id]; name != "" {
			fields = append(fields, iceberg.PartitionField{SourceIDs: []int{id}, FieldID: 998 + id, Name: name, Transform: iceberg.IdentityTransform{}})
		}
	}
	return iceberg.NewPartitionSpec(fields...)
}

// A staging table has a partition field named day, over the column computed, and later gets a
// column named day. The dataset aligns by the column.
//
// spec: resolve-46
func TestAlignPrefersColumnsToPartitionFields(t *testing.T) {
	l := lake{dir: t.TempDir()}
	c, done := newCatalog(t, l.dir)
	p := iceberg.PrimitiveTypes
	fields := []iceberg.NestedField{
		{ID: 1, Name: "id", Type: p.Int64}, {ID: 2, Name: "day", Type: p.Date}, {ID: 3, Name: "item", Type: p.Int64},
	}
	spec := days(map[int]string{2: "day"})
	training, err := c.CreateTable(t.Context(), icetable.Identifier{"ml", "train"}, iceberg.NewSchema(0, fields...), icecatalog.WithPartitionSpec(&spec))
	require.NoError(t, err)
	commit(t, training, `[{"id": 1, "day": "2026-01-02", "item": 1}, {"id": 1, "day": "2026-01-03", "item": 2}]`)

	commit(t, withColumnDay(t, c), `[
		{"id": 1, "computed": "2026-01-02", "day": "2026-01-03", "v": 103},
		{"id": 1, "computed": "2026-01-03", "day": "2026-01-02", "v": 102}
	]`)
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db"}}
datasets:
  d:
    training: {table: ml.train}
    key: [id]
    staging: [{table: features.days, columns: [v], align: {training: day, rule: same}}]
`)
	got := run(t, "cat", "d", "--config", l.config, "--format", "csv", "--columns", "item,v")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Equal(t, "item,v\n1,102\n2,103\n", got.stdout)
}

// withColumnDay creates the staging table with both partition fields, and then renames a column to
// day.
func withColumnDay(t *testing.T, c *icesql.Catalog) *icetable.Table {
	t.Helper()
	p := iceberg.PrimitiveTypes
	ident := icetable.Identifier{"features", "days"}
	spec := days(map[int]string{2: "day", 3: "day_of"})
	fields := []iceberg.NestedField{
		{ID: 1, Name: "id", Type: p.Int64}, {ID: 2, Name: "computed", Type: p.Date}, {ID: 3, Name: "other", Type: p.Date}, {ID: 4, Name: "v", Type: p.Int64},
	}
	_, err := c.CreateTable(t.Context(), ident, iceberg.NewSchema(0, fields...), icecatalog.WithPartitionSpec(&spec))
	require.NoError(t, err)
	fields[2].Name = "day"
	_, _, err = c.CommitTable(t.Context(), ident, nil, []icetable.Update{
		icetable.NewAddSchemaUpdate(iceberg.NewSchema(1, fields...)), icetable.NewSetCurrentSchemaUpdate(-1),
	})
	require.NoError(t, err)
	table, err := c.LoadTable(t.Context(), ident)
	require.NoError(t, err)
	return table
}
