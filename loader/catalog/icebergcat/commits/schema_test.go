package commits_test

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// scored makes a table of ids, scores and a struct, bucketed by id and sorted by score.
func scored(t *testing.T, c *icebergtest.Changing, version string) {
	t.Helper()
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}})
	order, err := icetable.NewSortOrder(1, []icetable.SortField{{SourceIDs: []int{2}, Transform: iceberg.IdentityTransform{}, Direction: icetable.SortASC, NullOrder: icetable.NullsFirst}})
	require.NoError(t, err)
	fields := []iceberg.NestedField{
		{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		{ID: 2, Name: "score", Type: iceberg.PrimitiveTypes.Float64, Doc: "of the model"},
		{ID: 3, Name: "user", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 4, Name: "age", Type: iceberg.PrimitiveTypes.Int32}}}},
		{ID: 5, Name: "old", Type: iceberg.PrimitiveTypes.String},
	}
	c.Create(t, icebergtest.Events, iceberg.NewSchemaWithIdentifiers(0, []int{1}, fields...), icecatalog.WithPartitionSpec(&spec), icecatalog.WithSortOrder(order), icebergtest.FormatVersion(version))
}

// named are the names of the columns of a schema, with their ids.
func named(t *testing.T, c *icebergtest.Changing, schema int) string {
	t.Helper()
	state, err := c.Tables.State(t.Context(), icebergtest.Events, "")
	require.NoError(t, err)
	s, ok := state.SchemaOf(schema)
	require.True(t, ok)
	var names []string
	for _, f := range s.Fields {
		names = append(names, f.Name+" "+icebergtest.Itoa(int64(f.ID)))
	}
	return strings.Join(names, ", ")
}

// A schema is added without being current, and made current later, if the table is still where
// it was. Its columns have ids that are reserved from then on.
//
// spec: write-31, write-32, write-33
func TestSchemasAreAddedAndMadeCurrent(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"1", "2", "3"} {
			scored(t, c, version)
			first := c.Append(t, "first", "a")
			edit := commit.SchemaEdit{
				Table: icebergtest.Events, UUID: c.Load(t, icebergtest.Events).Metadata().TableUUID().String(),
				Add: []commit.NewColumn{
					{ID: 6, Name: "clicks", Type: "long", Doc: "of a day"},
					{ID: 7, Name: "items", Type: `{"type": "list", "element-id": 8, "element": "long", "element-required": true}`},
				},
			}
			id, err := c.Tables.AddSchema(t.Context(), edit)
			require.NoError(t, err)
			require.Equal(t, 1, id)
			meta := c.Load(t, icebergtest.Events).Metadata()
			require.Equal(t, 0, meta.CurrentSchema().ID)
			require.Equal(t, 8, meta.LastColumnID())
			require.Equal(t, first.Snapshot, meta.CurrentSnapshot().SnapshotID)
			require.Equal(t, "id 1, score 2, user 3, old 5, clicks 6, items 7", named(t, c, 1))
			state, err := c.Tables.State(t.Context(), icebergtest.Events, "")
			require.NoError(t, err)
			require.Len(t, state.Schemas, 2)
			require.Equal(t, 0, state.Current)
			require.Equal(t, []int{1}, state.Identifier)
			require.Equal(t, state.Table.Fields, state.Schemas[0].Fields)
			require.Equal(t, []int{1}, meta.Schemas()[1].IdentifierFieldIDs)
			require.Equal(t, "of the model", meta.Schemas()[1].Field(1).Doc)

			before := c.BytesOf(t)
			again, err := c.Tables.AddSchema(t.Context(), edit)
			require.NoError(t, err)
			require.Equal(t, id, again)
			require.Equal(t, before, c.BytesOf(t))

			// Another program's commit keeps the ids reserved, and changes of files keep the current schema.
			_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("taken"), Columns: []commit.NewColumn{{ID: 6, Name: "other", Type: "int"}}})
			icebergtest.IsKind(t, err, fault.Conflict, "another column has the name or had the id")
			second := c.Append(t, "second", "b")
			require.Equal(t, 0, *c.Load(t, icebergtest.Events).Metadata().SnapshotByID(second.Snapshot).SchemaID)

			move := commit.SchemaMove{Table: icebergtest.Events, UUID: edit.UUID, From: 0, To: 1, Head: first.Snapshot}
			icebergtest.IsKind(t, c.Tables.SetSchema(t.Context(), move), fault.Conflict, "main of table ml.events is at snapshot "+icebergtest.Itoa(second.Snapshot)+", not at snapshot "+icebergtest.Itoa(first.Snapshot))
			move.Head = second.Snapshot
			require.NoError(t, c.Tables.SetSchema(t.Context(), move))
			meta = c.Load(t, icebergtest.Events).Metadata()
			require.Equal(t, 1, meta.CurrentSchema().ID)
			require.Equal(t, second.Snapshot, meta.CurrentSnapshot().SnapshotID)
			require.Len(t, meta.Schemas(), 2)
			before = c.BytesOf(t)
			require.NoError(t, c.Tables.SetSchema(t.Context(), move), "it was made")
			require.Equal(t, before, c.BytesOf(t))
			icebergtest.IsKind(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: 0, To: 7}), fault.Conflict, "schema 1 of table ml.events is current, not schema 0")
			icebergtest.IsKind(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: 1, To: 7}), fault.Conflict, "table ml.events has no schema 7")

			// Back again: no file and no append is lost.
			require.NoError(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: 1, To: 0}))
			require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
			require.Empty(t, c.Orphans(t))
			c.Drop(t)
		}
	})
}

// Names are swapped in one edit, columns are left out, and those that another schema has come back.
//
// spec: write-34, write-35
func TestSchemasAreEdited(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		scored(t, c, "2")
		add, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Add: []commit.NewColumn{{ID: 6, Name: "score_new", Type: "double"}}})
		require.NoError(t, err)
		swap := commit.SchemaEdit{Table: icebergtest.Events, Base: add, Rename: map[int]string{2: "score_before", 6: "score"}}
		swapped, err := c.Tables.AddSchema(t.Context(), swap)
		require.NoError(t, err)
		require.Equal(t, "id 1, score_before 2, user 3, old 5, score 6", named(t, c, swapped))
		both, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: swapped, Rename: map[int]string{2: "score", 6: "score_before"}})
		require.NoError(t, err)
		require.Equal(t, "id 1, score 2, user 3, old 5, score_before 6", named(t, c, both))
		dropped, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: swapped, Drop: []int{5, 3}})
		require.NoError(t, err)
		require.Equal(t, "id 1, score_before 2, score 6", named(t, c, dropped))
		user := commit.NewColumn{ID: 3, Name: "user", Type: `{"type":"struct","fields":[{"id":4,"name":"age","required":false,"type":"int"}]}`}
		back, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: dropped, Add: []commit.NewColumn{{ID: 5, Name: "old", Type: "string"}, user}})
		require.NoError(t, err)
		require.Equal(t, "id 1, score_before 2, score 6, old 5, user 3", named(t, c, back))
		same, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{
			Table: icebergtest.Events, Base: dropped, Drop: []int{6}, Rename: map[int]string{2: "score"}, Add: []commit.NewColumn{user, {ID: 5, Name: "old", Type: "string"}},
		})
		require.NoError(t, err)
		require.Equal(t, 0, same, "the table has this schema")
		same, err = c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: back})
		require.NoError(t, err)
		require.Equal(t, back, same)
		require.Equal(t, 6, c.Load(t, icebergtest.Events).Metadata().LastColumnID())
		for _, other := range []commit.NewColumn{{ID: 5, Name: "older", Type: "string"}, {ID: 5, Name: "old", Type: "binary"}, {ID: 5, Name: "old", Type: "string", Doc: "another"}} {
			_, err = c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: dropped, Add: []commit.NewColumn{other}})
			icebergtest.IsKind(t, err, fault.Conflict, "the id was used before, for a column that no schema of the table has with this name")
		}
	})
}

// spec: write-35, write-36
func TestSchemasThatTheTableCannotHave(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		scored(t, c, "2")
		before := c.BytesOf(t)
		for text, edit := range map[string]commit.SchemaEdit{
			"the column with field id 1 is needed by the partition spec":          {Drop: []int{1}},
			"the column with field id 2 is needed by the sort order":              {Drop: []int{2}},
			"has no top-level column with field id 4":                             {Drop: []int{4}},
			"schema 0 of table ml.events has no top-level column with field id 9": {Rename: map[int]string{9: "x"}},
			"field id 5 is given twice":                                           {Drop: []int{5, 5}},
			`the column with field id 5 is renamed to "x", and dropped`:           {Drop: []int{5}, Rename: map[int]string{5: "x"}},
			`the column with field id 5 is renamed to "", and needs a name`:       {Rename: map[int]string{5: ""}},
			`column "x" is required`:                                              {Add: []commit.NewColumn{{ID: 6, Name: "x", Type: "int", Required: true}}},
			"the columns to add to table ml.events are no Iceberg columns":        {Add: []commit.NewColumn{{ID: 6, Name: "x", Type: "strange"}}},
		} {
			edit.Table = icebergtest.Events
			_, err := c.Tables.AddSchema(t.Context(), edit)
			require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), text)
			require.ErrorContains(t, err, text)
		}
		for text, edit := range map[string]commit.SchemaEdit{
			"table ml.events has no schema 3":                   {Base: 3},
			`has two columns called "old"`:                      {Rename: map[int]string{2: "old"}},
			`has two columns called "score"`:                    {Add: []commit.NewColumn{{ID: 6, Name: "score", Type: "int"}}},
			`has two columns called "user.age"`:                 {Rename: map[int]string{5: "user.age"}},
			`column "x" cannot be added to schema 0 of table`:   {Add: []commit.NewColumn{{ID: 5, Name: "x", Type: "string"}}},
			`under field id 4: the id was used before`:          {Add: []commit.NewColumn{{ID: 4, Name: "x", Type: "int"}}},
			`under field id 5: the id was used before`:          {Drop: []int{5}, Add: []commit.NewColumn{{ID: 5, Name: "x", Type: "int"}}},
			`cannot be called "id_bucket": a partition field`:   {Rename: map[int]string{5: "id_bucket"}},
			`cannot be called "id_bucket": a partition field h`: {Add: []commit.NewColumn{{ID: 6, Name: "id_bucket", Type: "int"}}},
		} {
			edit.Table = icebergtest.Events
			_, err := c.Tables.AddSchema(t.Context(), edit)
			require.Equal(t, fault.Conflict.String(), fault.KindOf(err).String(), "%s: %v", text, err)
			require.ErrorContains(t, err, text)
			require.False(t, commit.Uncertain(err))
		}
		_, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, UUID: "9a1c6d4e-0000-4000-8000-000000000000"})
		icebergtest.IsKind(t, err, fault.Expired, "was dropped and created again")
		require.Equal(t, before, c.BytesOf(t))

		// The partition spec may have changed since the schema was current.
		id, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Drop: []int{5}})
		require.NoError(t, err)
		spec := iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{5}, FieldID: 1001, Name: "old_id", Transform: iceberg.TruncateTransform{Width: 2}})
		c.Update(t, icebergtest.Events, icetable.NewAddPartitionSpecUpdate(&spec, false), icetable.NewSetDefaultSpecUpdate(-1))
		icebergtest.IsKind(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: 0, To: id}), fault.Invalid, "the column with field id 5 is needed by the partition spec")
	})
}

// Of writers that choose one field id at the same time, one gets it. Those that add the same column all do.
//
// spec: write-35
func TestSchemasThatRace(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		scored(t, c, "2")
		const writers = 6
		ids, failed := make([]int, writers), make([]error, writers)
		var group sync.WaitGroup
		for i := range writers {
			tables := c.Another(t, nil)
			group.Go(func() {
				column := commit.NewColumn{ID: 6, Name: "clicks", Type: "long", Doc: "of promotion " + icebergtest.Itoa(int64(i%2))}
				ids[i], failed[i] = tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Add: []commit.NewColumn{column}})
			})
		}
		group.Wait()
		meta := c.Load(t, icebergtest.Events).Metadata()
		require.Len(t, meta.Schemas(), 2)
		for i, err := range failed {
			if "of promotion "+icebergtest.Itoa(int64(i%2)) == meta.Schemas()[1].Field(4).Doc {
				require.NoError(t, err)
				require.Equal(t, 1, ids[i])
			} else {
				icebergtest.IsKind(t, err, fault.Conflict, "under field id 6: the id was used before")
			}
		}
	})
}

// Attributes of columns that this version does not know stay, and so do defaults and documentation.
//
// spec: write-34
func TestUnknownAttributesOfColumnsStay(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	scored(t, c, "3")
	path := icebergtest.Local(t, c.Load(t, icebergtest.Events).MetadataLocation())
	text, err := os.ReadFile(path) //nolint:gosec // a test's own file
	require.NoError(t, err)
	const unknown = `"from-the-future":{"z":1.00,"a":[9007199254740993]}`
	changed := strings.Replace(string(text), `"doc":"of the model"`, `"initial-default":1.5,"write-default":2.5,`+unknown+`,"doc":"of the model"`, 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))

	renamed, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Rename: map[int]string{2: "other"}})
	require.NoError(t, err)
	same, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: renamed, Rename: map[int]string{2: "score"}})
	require.NoError(t, err)
	require.Equal(t, 0, same)
	after, err := os.ReadFile(icebergtest.Local(t, c.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(after), unknown))
	for _, s := range c.Load(t, icebergtest.Events).Metadata().Schemas() {
		require.Equal(t, "of the model", s.Field(1).Doc)
		require.InEpsilon(t, 1.5, s.Field(1).InitialDefault, 0)
		require.InEpsilon(t, 2.5, s.Field(1).WriteDefault, 0)
		require.Equal(t, []int{1}, s.IdentifierFieldIDs)
	}

	// A schema that lacks what is not known is another one.
	changed = strings.Replace(string(after), unknown+",", "", 1)
	require.NoError(t, os.WriteFile(icebergtest.Local(t, c.Load(t, icebergtest.Events).MetadataLocation()), []byte(changed), 0o600))
	other, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Base: renamed, Rename: map[int]string{2: "score"}})
	require.NoError(t, err)
	require.Equal(t, 2, other)
}

// Files may have statistics of columns of every schema of the table, and are read under the
// schema that is current.
//
// spec: write-37
func TestFilesHaveColumnsOfOtherSchemas(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.Bucketed(t, version)
			base := c.Append(t, "first", "a")
			id, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Add: []commit.NewColumn{{ID: 2, Name: "f", Type: "double"}}})
			require.NoError(t, err)
			change := c.Replacement("promote", base.Snapshot, []string{"a"}, "b")
			change.Add[0].Values[2], change.Add[0].Nulls[2] = 10, 3
			change.Add[0].Sequence = entries(t, c)["a"].SequenceNum()
			made, err := c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			meta := c.Load(t, icebergtest.Events).Metadata()
			require.Equal(t, 0, *meta.SnapshotByID(made.Snapshot).SchemaID)
			require.Equal(t, int64(10), entries(t, c)["b"].DataFile().ValueCounts()[2])
			require.NoError(t, c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, To: id, Head: made.Snapshot}))
			require.Equal(t, []string{"b"}, c.Files(t, ""))
			change = c.Replacement("more", made.Snapshot, []string{"b"}, "c")
			change.Add[0].Values[3] = 10
			_, err = c.Tables.Commit(t.Context(), change)
			icebergtest.IsKind(t, err, fault.Conflict, "has a column with field id 3, which table ml.events does not have")
			c.Drop(t)
		}
	})
}

// spec: write-22
func TestAccidentsWhileSchemasAreAdded(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		scored(t, c, "2")
		c.Append(t, "first", "a")
		n, name, id := 0, "", 0
		eachAccident(t, c, func(*testing.T) {
			n++
			name, id = "clicks_"+icebergtest.Itoa(int64(n)), 0
		}, func(tables *icebergcat.Catalog) (err error) {
			id, err = tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Rename: map[int]string{5: name}})
			return err
		}, func(t *testing.T) {
			meta := c.Load(t, icebergtest.Events).Metadata()
			require.Zero(t, meta.CurrentSchema().ID)
			require.Len(t, meta.Schemas(), n+1, "one schema, not two")
			require.Equal(t, id, meta.Schemas()[n].ID)
			require.Equal(t, name, meta.Schemas()[n].Field(3).Name)
		})
	})
}

// spec: write-22
func TestAccidentsWhileSchemasBecomeCurrent(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		scored(t, c, "2")
		head := c.Append(t, "first", "a")
		other, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Drop: []int{5}})
		require.NoError(t, err)
		current := 0
		eachAccident(t, c, func(t *testing.T) {
			current = c.Load(t, icebergtest.Events).Metadata().CurrentSchema().ID
		}, func(tables *icebergcat.Catalog) error {
			return tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, From: current, To: other - current, Head: head.Snapshot})
		}, func(t *testing.T) {
			meta := c.Load(t, icebergtest.Events).Metadata()
			require.Equal(t, other-current, meta.CurrentSchema().ID)
			require.Len(t, meta.Schemas(), 2)
		})
	})
}

// What a catalog answers is compared with what it should have done.
//
// spec: write-33
func TestCatalogsThatDoNotSetTheSchema(t *testing.T) {
	c := icebergtest.NewWriter(t).ChangesByREST(t)
	scored(t, c, "2")
	c.Append(t, "first", "a")
	id, err := c.Tables.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events, Drop: []int{5}})
	require.NoError(t, err)
	c.Server.Change(func(s *restcattest.Server) {
		s.Commit = func([]string, string, []byte) (bool, error) { return true, nil }
	})
	err = c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, To: id})
	icebergtest.IsKind(t, err, fault.Unavailable, "does not contain what was committed")
	require.True(t, commit.Uncertain(err))
	c.Server.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusForbidden)
			}
			return r.Method == http.MethodPost
		}
	})
	err = c.Tables.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events, To: id})
	icebergtest.IsKind(t, err, fault.Unavailable, "allow the identity of the catalog's token or credential to commit to the table")
	require.False(t, commit.Uncertain(err))
}

// spec: write-2
func TestSchemasOfOtherNamespacesStay(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	reader := c.Another(t, func(o *icebergcat.Options) { o.WriteNamespaces = nil })
	_, err := reader.AddSchema(t.Context(), commit.SchemaEdit{Table: icebergtest.Events})
	icebergtest.IsKind(t, err, fault.Forbidden, "table ml.events may not be changed")
	icebergtest.IsKind(t, reader.SetSchema(t.Context(), commit.SchemaMove{Table: icebergtest.Events}), fault.Forbidden, "table ml.events may not be changed")
}
