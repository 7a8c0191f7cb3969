package icebergcat_test

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
)

// replacement is a change that replaces files.
func (c *changing) replacement(name string, base int64, remove []string, add ...string) commit.Change {
	change := commit.Change{Table: events, Token: token(name), Mode: commit.Rewrite, Base: base}
	if len(remove) != len(add) { // each has as many rows
		change.Mode = commit.Overwrite
	}
	for _, f := range remove {
		change.Remove = append(change.Remove, location(f))
	}
	for _, f := range add {
		change.Add = append(change.Add, c.file(f, 1))
	}
	return change
}

// Manifests that hold none of the removed files are carried over. In the others, the files
// that stay keep their snapshots, sequence numbers, row ids and statistics.
//
// spec: write-11, write-12
func TestReplaceRewritesOnlyWhatItMust(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.bucketed(t, version)
			first := c.append(t, "first", "a", "b")
			c.append(t, "second", "c")
			before := c.entries(t)
			change := c.replacement("compaction", c.append(t, "third", "d").Snapshot, []string{"a"}, "e")
			change.Mode = map[string]commit.Mode{"1": commit.Rewrite, "2": commit.Rewrite, "3": commit.Overwrite}[version]
			made, err := c.tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, []string{"b", "c", "d", "e"}, c.files(t, ""))

			s := c.load(t, events).CurrentSnapshot()
			require.Equal(t, change.Mode.String(), string(s.Summary.Operation))
			require.Equal(t, "1", s.Summary.Properties["deleted-data-files"])
			require.Equal(t, "4", s.Summary.Properties["total-data-files"])
			after := c.entries(t)
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
			c.append(t, "fourth", "f")
			require.Equal(t, []string{"b", "c", "d", "e", "f"}, c.files(t, ""))
			require.Empty(t, c.leftovers(t))
			c.drop(t)
		}
	})
}

// entries are those of main's manifests, by the file's name.
func (c *changing) entries(t *testing.T) map[string]iceberg.ManifestEntry {
	t.Helper()
	tbl := c.load(t, events)
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fs)
	require.NoError(t, err)
	out := map[string]iceberg.ManifestEntry{}
	for _, m := range manifests {
		for e, err := range m.Entries(fs, false) {
			require.NoError(t, err)
			name := nameOf(e.DataFile().FilePath())
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
	c := newWriter(t).changes(t)
	c.bucketed(t, "3")
	c.append(t, "first", "a")
	second := c.append(t, "second", "b")
	change := c.replacement("compaction", second.Snapshot, []string{"a"}, "c")
	first := int64(0)
	change.Add[0].Sequence, change.Add[0].FirstRow = 1, &first
	_, err := c.tables.Commit(t.Context(), change)
	require.NoError(t, err)
	added := c.entries(t)["c"]
	require.Equal(t, int64(1), added.SequenceNum())
	require.Equal(t, int64(3), *added.FileSequenceNum())
	require.Zero(t, *added.DataFile().FirstRowID())
	change = c.replacement("later", c.load(t, events).CurrentSnapshot().SnapshotID, []string{"c"}, "d")
	change.Add[0].Sequence = 9
	_, err = c.tables.Commit(t.Context(), change)
	require.ErrorContains(t, err, "has sequence number 9, but the last one of table ml.events is 3")
}

// Others may append meanwhile, but not remove the files or delete rows in them.
//
// spec: write-14, write-15
func TestReplaceIsCheckedAgainstOthersCommits(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		base := c.append(t, "first", "a", "b")
		c.append(t, "foreign", "c")
		_, err := c.tables.Commit(t.Context(), c.replacement("one", base.Snapshot, []string{"a"}, "d"))
		require.NoError(t, err)
		require.Equal(t, []string{"b", "c", "d"}, c.files(t, ""), "a foreign append stays")

		before := c.bytesOf(t)
		_, err = c.tables.Commit(t.Context(), c.replacement("two", base.Snapshot, []string{"a", "b"}, "e"))
		isKind(t, err, fault.Conflict, "1 file of the change, such as "+location("a")+", is not in branch main")
		require.Equal(t, before, c.bytesOf(t))

		current := c.load(t, events).CurrentSnapshot().SnapshotID
		c.deletes(t, map[int]any{1000: int32(1)})
		_, err = c.tables.Commit(t.Context(), c.replacement("three", current, []string{"b"}, "e"))
		isKind(t, err, fault.Conflict, "rows of file "+location("b")+" of table ml.events were deleted by another commit after snapshot "+itoa(current))
		require.Equal(t, []string{"b", "c", "d"}, c.files(t, ""))

		// Deletes that the change knows are no conflict, nor are those of other partitions.
		current = c.load(t, events).CurrentSnapshot().SnapshotID
		c.deletes(t, map[int]any{1000: int32(2)})
		_, err = c.tables.Commit(t.Context(), c.replacement("four", current, []string{"b"}, "e"))
		require.NoError(t, err)
		require.Equal(t, []string{"c", "d", "e"}, c.files(t, ""))

		_, err = c.tables.Commit(t.Context(), c.replacement("five", 12345, []string{"c"}, "f"))
		isKind(t, err, fault.Conflict, "snapshot 12345 of table ml.events, which the change was derived from, no longer exists")
	})
}

// deletes commits equality deletes of a partition.
func (c *changing) deletes(t *testing.T, partition map[int]any) {
	t.Helper()
	tbl := c.load(t, events)
	b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentEqDeletes, location(token("deletes")), iceberg.ParquetFile, partition, nil, nil, 1, 100)
	require.NoError(t, err)
	tx := tbl.NewTransaction()
	require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.EqualityFieldIDs([]int{1}).Build()).Commit(t.Context()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// spec: write-16
func TestColumnsAreAddedWithTheFiles(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.bucketed(t, version)
			first := c.append(t, "first", "a")
			file := c.file("b", 1)
			file.Values[2], file.Values[4] = 10, 10
			change := commit.Change{
				Table: events, Token: token("evolve"), Add: []commit.DataFile{file},
				Columns: []commit.NewColumn{
					{ID: 2, Name: "score", Type: "double", Doc: "of the model"},
					{ID: 3, Name: "items", Type: `{"type": "list", "element-id": 4, "element": "long", "element-required": true}`},
				},
			}
			made, err := c.tables.Commit(t.Context(), change)
			require.NoError(t, err)
			meta := c.load(t, events).Metadata()
			fields := meta.CurrentSchema().Fields()
			require.Len(t, fields, 3)
			require.Equal(t, iceberg.NestedField{ID: 2, Name: "score", Type: iceberg.PrimitiveTypes.Float64, Doc: "of the model"}, fields[1])
			require.Equal(t, "list<long>", fields[2].Type.String())
			require.Equal(t, 4, meta.LastColumnID())
			require.Equal(t, meta.CurrentSchema().ID, *meta.SnapshotByID(made.Snapshot).SchemaID)
			require.NotEqual(t, *meta.SnapshotByID(first.Snapshot).SchemaID, *meta.SnapshotByID(made.Snapshot).SchemaID)

			// Another change that needs the columns finds them.
			change.Token, change.Add = token("again"), []commit.DataFile{c.file("c", 1)}
			_, err = c.tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Len(t, c.load(t, events).Metadata().Schemas(), 2)
			for _, column := range []commit.NewColumn{{ID: 5, Name: "score", Type: "double"}, {ID: 2, Name: "other", Type: "double"}, {ID: 2, Name: "score", Type: "float"}, {ID: 4, Name: "new", Type: "int"}} {
				change.Token, change.Columns = token("conflict"), []commit.NewColumn{column}
				_, err = c.tables.Commit(t.Context(), change)
				isKind(t, err, fault.Conflict, "cannot be added to table ml.events under field id")
			}
			file.Values[9] = 10
			_, err = c.tables.Commit(t.Context(), commit.Change{Table: events, Token: token("unknown"), Add: []commit.DataFile{file}})
			isKind(t, err, fault.Conflict, "has a column with field id 9, which table ml.events does not have")
			require.Empty(t, c.leftovers(t))
			c.drop(t)
		}
	})
}

// spec: write-17
func TestUnknownFieldsOfMetadataStay(t *testing.T) {
	c := newWriter(t).changes(t)
	c.bucketed(t, "2")
	c.append(t, "first", "a")
	path := local(t, c.load(t, events).MetadataLocation())
	text, err := os.ReadFile(path) //nolint:gosec // a test's own file
	require.NoError(t, err)
	const unknown = `"from-the-future":{"z":1.00,"a":[9007199254740993]},`
	require.NoError(t, os.WriteFile(path, append([]byte("{"+unknown), text[1:]...), 0o600))
	file := c.file("b", 1)
	_, err = c.tables.Commit(t.Context(), commit.Change{
		Table: events, Token: token("b"), Add: []commit.DataFile{file}, Columns: []commit.NewColumn{{ID: 2, Name: "score", Type: "double"}},
	})
	require.NoError(t, err)
	after, err := os.ReadFile(local(t, c.load(t, events).MetadataLocation()))
	require.NoError(t, err)
	require.Contains(t, string(after), unknown)
	require.Equal(t, []string{"a", "b"}, c.files(t, ""))
}

// spec: write-17
func TestUnknownMetadataStays(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		c.append(t, "first", "a")
		snapshot := c.load(t, events).CurrentSnapshot().SnapshotID
		c.update(t, events, icetable.NewSetSnapshotRefUpdate("main", snapshot, icetable.BranchRef, 5_000_000, 6_000_000, 7),
			icetable.NewSetSnapshotRefUpdate("keep", snapshot, icetable.TagRef, 8_000_000, 0, 0))
		c.append(t, "second", "b")
		for name, ref := range c.load(t, events).Metadata().Refs() {
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
	c := newWriter(t).changes(t)
	c.bucketed(t, "2")
	first := c.append(t, "first", numbered("f", 200)...)
	before, location := c.bytesOf(t), c.load(t, events).MetadataLocation()
	for _, bytes := range []int64{1 << 10, 64 << 10, 512 << 10, 64 << 20} {
		o := budget.New(bytes)
		tables := c.another(t, func(options *icebergcat.Options) { options.Budget = o })
		change := c.replacement("replace", first.Snapshot, []string{"f-007"}, numbered("g", 200)...)
		_, err := tables.Commit(t.Context(), change)
		require.Zero(t, o.Used())
		if err == nil {
			require.Equal(t, int64(64<<20), bytes)
			continue
		}
		require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
		require.False(t, commit.Uncertain(err))
		require.Equal(t, before, c.bytesOf(t))
		require.Equal(t, location, c.load(t, events).MetadataLocation())
	}
	require.Len(t, c.files(t, ""), 399)
}
