package commits_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// newEvents is a table like that of bucketed, with more columns.
func newEvents(version int) commit.NewTable {
	return commit.NewTable{
		Table: icebergtest.Events, Version: version,
		Columns: []commit.NewColumn{
			{ID: 1, Name: "id", Type: "long", Required: true},
			{ID: 2, Name: "day", Type: "date"},
			{ID: 3, Name: "items", Type: `{"type":"list","element-id":4,"element":"long","element-required":false}`, Doc: "what was shown"},
		},
		Partition:  []commit.PartitionBy{{Column: 1, Name: "id_bucket", Transform: "bucket[4]"}},
		Sort:       []commit.SortBy{{Column: 1}, {Column: 2, Descending: true, NullsLast: true}},
		Properties: map[string]string{"owner": "us"},
	}
}

// spec: write-21
func TestTablesAreCreated(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Create(t, "ml.other", icebergtest.IDSchema()) // makes the namespace
		for version := 1; version <= 3; version++ {
			require.NoError(t, c.Tables.Create(t.Context(), newEvents(version)))
			tbl := c.Load(t, icebergtest.Events)
			meta := tbl.Metadata()
			require.Equal(t, version, meta.Version())
			require.Nil(t, meta.CurrentSnapshot())
			fields := meta.CurrentSchema().Fields()
			require.Equal(t, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true}, fields[0])
			require.Equal(t, "what was shown", fields[2].Doc)
			require.Equal(t, 4, meta.LastColumnID())
			spec := meta.PartitionSpec()
			require.Equal(t, "id_bucket", spec.Field(0).Name)
			require.Equal(t, iceberg.BucketTransform{NumBuckets: 4}, spec.Field(0).Transform)
			require.Equal(t, 2, meta.SortOrder().Len())
			require.Equal(t, "us", meta.Properties()["owner"])

			err := c.Tables.Create(t.Context(), newEvents(version))
			icebergtest.IsKind(t, err, fault.Conflict, "table ml.events already exists")
			require.False(t, commit.Uncertain(err))
			state, err := c.Tables.State(t.Context(), icebergtest.Events, "")
			require.NoError(t, err)
			require.Equal(t, version, state.Version)
			require.Equal(t, meta.DefaultSortOrder(), state.SortOrder)
			c.Append(t, "first", "a")
			c.Append(t, "second", "b")
			require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
			require.Empty(t, c.Orphans(t))
			c.Drop(t)
		}
	})
}

// Of several that create one table, one does.
//
// spec: write-21
func TestATableIsCreatedOnce(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Create(t, "ml.other", icebergtest.IDSchema())
		var group errgroup.Group
		made := make([]bool, 6)
		for i := range made {
			one := c.Another(t, nil)
			group.Go(func() error {
				err := one.Create(t.Context(), newEvents(2))
				if made[i] = err == nil; fault.KindOf(err) == fault.Conflict {
					return nil
				}
				return err
			})
		}
		require.NoError(t, group.Wait())
		count := 0
		for _, ok := range made {
			if ok {
				count++
			}
		}
		require.Equal(t, 1, count)
		require.Empty(t, c.Orphans(t))
	})
}

// spec: write-21
func TestTablesLieBelowTheWarehouse(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	tables := c.Another(t, func(o *icebergcat.Options) { o.AllowedPrefixes = nil })
	table := newEvents(2)
	table.Location = filepath.Join(filepath.Dir(c.Dir), "elsewhere")
	icebergtest.IsKind(t, tables.Create(t.Context(), table), fault.Forbidden, "is not under the catalog's warehouse or allowed_prefixes")
	table.Location = ""
	require.NoError(t, tables.Create(t.Context(), table))
	require.Equal(t, "file://"+c.Dir+"/ml/events", c.Load(t, icebergtest.Events).Location())
	for _, name := range []string{"ml.events/", "ml./events", "ml.events/data"} {
		table.Table = name
		icebergtest.IsKind(t, tables.Create(t.Context(), table), fault.Invalid, "has a slash in its name")
	}
	tables = c.Another(t, func(o *icebergcat.Options) { o.Warehouse = "" })
	table.Table = "ml.third"
	icebergtest.IsKind(t, tables.Create(t.Context(), table), fault.Invalid, "the catalog has no warehouse to put it into")
}

// spec: write-21
func TestTablesThatCannotBeCreated(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	for text, change := range map[string]func(*commit.NewTable){
		"format version 4 is not supported":             func(n *commit.NewTable) { n.Version = 4 },
		"are no Iceberg columns":                        func(n *commit.NewTable) { n.Columns[0].Type = "longer" },
		"partition: the table has no column with":       func(n *commit.NewTable) { n.Partition[0].Column = 9 },
		"sort: the table has no column with field id 9": func(n *commit.NewTable) { n.Sort[0].Column = 9 },
		`of type long has no transform "bucket[-1]"`:    func(n *commit.NewTable) { n.Partition[0].Transform = "bucket[-1]" },
		`of type long has no transform "day"`:           func(n *commit.NewTable) { n.Partition[0].Transform = "day" },
		"table ml.events cannot be created like this":   func(n *commit.NewTable) { n.Partition = append(n.Partition, n.Partition[0]) },
	} {
		table := newEvents(2)
		change(&table)
		err := c.Tables.Create(t.Context(), table)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, text)
	}
	for name := range c.BytesOf(t) {
		require.False(t, strings.HasSuffix(name, ".json"), name)
	}
}
