package commits_test

import (
	"os"
	"testing"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// Manifests that hold none of the removed files are carried over. In the others, the files
// that stay keep their snapshots, sequence numbers, row ids and statistics.
//
// spec: write-11, write-12
func TestReplaceRewritesOnlyWhatItMust(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.Bucketed(t, version)
			first := c.Append(t, "first", "a", "b")
			c.Append(t, "second", "c")
			before := entries(t, c)
			change := c.Replacement("compaction", c.Append(t, "third", "d").Snapshot, []string{"a"}, "e")
			change.Mode = map[string]commit.Mode{"1": commit.Rewrite, "2": commit.Rewrite, "3": commit.Overwrite}[version]
			made, err := c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, []string{"b", "c", "d", "e"}, c.Files(t, ""))

			s := c.Load(t, icebergtest.Events).CurrentSnapshot()
			require.Equal(t, change.Mode.String(), string(s.Summary.Operation))
			require.Equal(t, "1", s.Summary.Properties["deleted-data-files"])
			require.Equal(t, "4", s.Summary.Properties["total-data-files"])
			after := entries(t, c)
			require.Equal(t, iceberg.EntryStatusDELETED, after["a"].Status())
			require.Equal(t, made.Snapshot, after["a"].SnapshotID())
			b := after["b"]
			require.Equal(t, iceberg.EntryStatusEXISTING, b.Status())
			require.Equal(t, first.Snapshot, b.SnapshotID())
			require.Equal(t, before["b"].SequenceNum(), b.SequenceNum())
			require.Equal(t, before["b"].FileSequenceNum(), b.FileSequenceNum())
			require.Equal(t, before["b"].DataFile().FirstRowID(), b.DataFile().FirstRowID())
			require.Equal(t, before["b"].DataFile().LowerBoundValues(), b.DataFile().LowerBoundValues())
			require.Equal(t, before["b"].DataFile().ColumnSizes(), b.DataFile().ColumnSizes())
			require.Equal(t, before["b"].DataFile().SplitOffsets(), b.DataFile().SplitOffsets())
			require.Equal(t, before["b"].DataFile().Partition(), b.DataFile().Partition())
			require.Equal(t, iceberg.EntryStatusADDED, after["c"].Status(), "its manifest is the one that it was")

			// The next commit leaves out what only says that files are gone.
			c.Append(t, "fourth", "f")
			require.Equal(t, []string{"b", "c", "d", "e", "f"}, c.Files(t, ""))
			require.Empty(t, c.Orphans(t))
			c.Drop(t)
		}
	})
}

// entries are those of main's manifests, by the file's name.
func entries(t *testing.T, c *icebergtest.Changing) map[string]iceberg.ManifestEntry {
	t.Helper()
	tbl := c.Load(t, icebergtest.Events)
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fs)
	require.NoError(t, err)
	out := map[string]iceberg.ManifestEntry{}
	for _, m := range manifests {
		for e, err := range m.Entries(fs, false) {
			require.NoError(t, err)
			name := icebergtest.NameOf(e.DataFile().FilePath())
			require.NotContains(t, out, name)
			out[name] = e
		}
	}
	return out
}

// A rewritten file may keep the age and the row ids of its rows.
//
// spec: write-13
func TestRewrittenRowsKeepTheirAge(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "3")
	c.Append(t, "first", "a")
	second := c.Append(t, "second", "b")
	change := c.Replacement("compaction", second.Snapshot, []string{"a"}, "c")
	first := int64(0)
	change.Add[0].Sequence, change.Add[0].FirstRow = 1, &first
	_, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	added := entries(t, c)["c"]
	require.Equal(t, int64(1), added.SequenceNum())
	require.Equal(t, int64(3), *added.FileSequenceNum())
	require.Zero(t, *added.DataFile().FirstRowID())
	change = c.Replacement("later", c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID, []string{"c"}, "d")
	change.Add[0].Sequence = 9
	_, err = c.Tables.Commit(t.Context(), change)
	require.ErrorContains(t, err, "has sequence number 9, but the last one of table ml.events is 3")
}

// Others may append meanwhile, but not remove the files or delete rows in them.
//
// spec: write-14, write-15
func TestReplaceIsCheckedAgainstOthersCommits(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		base := c.Append(t, "first", "a", "b")
		c.Append(t, "foreign", "c")
		_, err := c.Tables.Commit(t.Context(), c.Replacement("one", base.Snapshot, []string{"a"}, "d"))
		require.NoError(t, err)
		require.Equal(t, []string{"b", "c", "d"}, c.Files(t, ""), "a foreign append stays")

		before := c.BytesOf(t)
		_, err = c.Tables.Commit(t.Context(), c.Replacement("two", base.Snapshot, []string{"a", "b"}, "e"))
		icebergtest.IsKind(t, err, fault.Conflict, "1 file of the change, such as "+icebergtest.Location("a")+", is not in branch main")
		require.Equal(t, before, c.BytesOf(t))

		current := c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		c.Deletes(t, map[int]any{1000: int32(1)})
		_, err = c.Tables.Commit(t.Context(), c.Replacement("three", current, []string{"b"}, "e"))
		icebergtest.IsKind(t, err, fault.Conflict, "rows of file "+icebergtest.Location("b")+" of table ml.events were deleted by another commit after snapshot "+icebergtest.Itoa(current))
		require.Equal(t, []string{"b", "c", "d"}, c.Files(t, ""))

		// Deletes that the change knows are no conflict, nor are those of other partitions.
		current = c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		c.Deletes(t, map[int]any{1000: int32(2)})
		_, err = c.Tables.Commit(t.Context(), c.Replacement("four", current, []string{"b"}, "e"))
		require.NoError(t, err)
		require.Equal(t, []string{"c", "d", "e"}, c.Files(t, ""))

		_, err = c.Tables.Commit(t.Context(), c.Replacement("five", 12345, []string{"c"}, "f"))
		icebergtest.IsKind(t, err, fault.Conflict, "snapshot 12345 of table ml.events, which the change was derived from, no longer exists")
	})
}

// spec: write-16
func TestColumnsAreAddedWithTheFiles(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.Bucketed(t, version)
			first := c.Append(t, "first", "a")
			file := c.File("b", 1)
			file.Values[2], file.Values[4] = 10, 10
			change := commit.Change{
				Table: icebergtest.Events, Token: icebergtest.Token("evolve"), Add: []commit.DataFile{file},
				Columns: []commit.NewColumn{
					{ID: 2, Name: "score", Type: "double", Doc: "of the model"},
					{ID: 3, Name: "items", Type: `{"type": "list", "element-id": 4, "element": "long", "element-required": true}`},
				},
			}
			made, err := c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			meta := c.Load(t, icebergtest.Events).Metadata()
			fields := meta.CurrentSchema().Fields()
			require.Len(t, fields, 3)
			require.Equal(t, iceberg.NestedField{ID: 2, Name: "score", Type: iceberg.PrimitiveTypes.Float64, Doc: "of the model"}, fields[1])
			require.Equal(t, "list<long>", fields[2].Type.String())
			require.Equal(t, 4, meta.LastColumnID())
			require.Equal(t, meta.CurrentSchema().ID, *meta.SnapshotByID(made.Snapshot).SchemaID)
			require.NotEqual(t, *meta.SnapshotByID(first.Snapshot).SchemaID, *meta.SnapshotByID(made.Snapshot).SchemaID)

			// Another change that needs the columns finds them.
			change.Token, change.Add = icebergtest.Token("again"), []commit.DataFile{c.File("c", 1)}
			_, err = c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Len(t, c.Load(t, icebergtest.Events).Metadata().Schemas(), 2)
			for _, column := range []commit.NewColumn{{ID: 5, Name: "score", Type: "double"}, {ID: 2, Name: "other", Type: "double"}, {ID: 2, Name: "score", Type: "float"}, {ID: 4, Name: "new", Type: "int"}} {
				change.Token, change.Columns = icebergtest.Token("conflict"), []commit.NewColumn{column}
				_, err = c.Tables.Commit(t.Context(), change)
				icebergtest.IsKind(t, err, fault.Conflict, "cannot be added to table ml.events under field id")
			}
			file.Values[9] = 10
			_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("unknown"), Add: []commit.DataFile{file}})
			icebergtest.IsKind(t, err, fault.Conflict, "has a column with field id 9, which table ml.events does not have")
			require.Empty(t, c.Orphans(t))
			c.Drop(t)
		}
	})
}

// spec: write-17
func TestUnknownFieldsOfMetadataStay(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	c.Append(t, "first", "a")
	path := icebergtest.Local(t, c.Load(t, icebergtest.Events).MetadataLocation())
	text, err := os.ReadFile(path) //nolint:gosec // a test's own file
	require.NoError(t, err)
	const unknown = `"from-the-future":{"z":1.00,"a":[9007199254740993]},`
	require.NoError(t, os.WriteFile(path, append([]byte("{"+unknown), text[1:]...), 0o600))
	file := c.File("b", 1)
	_, err = c.Tables.Commit(t.Context(), commit.Change{
		Table: icebergtest.Events, Token: icebergtest.Token("b"), Add: []commit.DataFile{file}, Columns: []commit.NewColumn{{ID: 2, Name: "score", Type: "double"}},
	})
	require.NoError(t, err)
	after, err := os.ReadFile(icebergtest.Local(t, c.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	require.Contains(t, string(after), unknown)
	require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
}

// spec: write-17
func TestUnknownMetadataStays(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		c.Append(t, "first", "a")
		snapshot := c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		c.Update(t, icebergtest.Events, icetable.NewSetSnapshotRefUpdate("main", snapshot, icetable.BranchRef, 5_000_000, 6_000_000, 7),
			icetable.NewSetSnapshotRefUpdate("keep", snapshot, icetable.TagRef, 8_000_000, 0, 0))
		c.Append(t, "second", "b")
		for name, ref := range c.Load(t, icebergtest.Events).Metadata().Refs() {
			if name == "main" {
				require.Equal(t, []any{int64(5_000_000), int64(6_000_000), 7}, []any{*ref.MaxRefAgeMs, *ref.MaxSnapshotAgeMs, *ref.MinSnapshotsToKeep})
			} else {
				require.Equal(t, snapshot, ref.SnapshotID)
				require.Equal(t, int64(8_000_000), *ref.MaxRefAgeMs)
			}
		}
	})
}

// Memory of a commit is charged, and free afterwards. If there is too little, nothing is
// written.
//
// spec: write-22
func TestCommitsAreCharged(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	first := c.Append(t, "first", icebergtest.Numbered("f", 200)...)
	before, location := c.BytesOf(t), c.Load(t, icebergtest.Events).MetadataLocation()
	for _, bytes := range []int64{1 << 10, 64 << 10, 512 << 10, 64 << 20} {
		o := budget.New(bytes)
		tables := c.Another(t, func(options *icebergcat.Options) { options.Budget = o })
		change := c.Replacement("replace", first.Snapshot, []string{"f-007"}, icebergtest.Numbered("g", 200)...)
		_, err := tables.Commit(t.Context(), change)
		require.Zero(t, o.Used())
		if err == nil {
			require.Equal(t, int64(64<<20), bytes)
			continue
		}
		require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
		require.False(t, commit.Uncertain(err))
		require.Equal(t, before, c.BytesOf(t))
		require.Equal(t, location, c.Load(t, icebergtest.Events).MetadataLocation())
	}
	require.Len(t, c.Files(t, ""), 399)
}
