package commits_test

import (
	"strconv"
	"testing"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// deletesOf are position deletes or a deletion vector of an added file, as a format version has them.
func deletesOf(f commit.DataFile, version, name string, rows int64) catalog.DeleteFile {
	out := catalog.DeleteFile{Location: icebergtest.Location(name), Data: f.Location, Rows: rows, Bytes: 100, Spec: f.Spec, Partition: f.Partition}
	if version == "3" {
		out.Kind, out.Offset, out.Length = catalog.DeletionVector, 4, 40
	}
	return out
}

// deleted are the names of the delete files of each data file of main, as a fresh reader lists them.
func deleted(t *testing.T, c *icebergtest.Changing) map[string][]string {
	t.Helper()
	reader := c.Another(t, nil)
	pinned, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	files, err := reader.Files(t.Context(), pinned, nil, nil)
	require.NoError(t, err)
	out := map[string][]string{}
	for _, f := range files {
		for _, d := range f.Deletes.All(f.Sequence) {
			out[icebergtest.NameOf(f.Location)] = append(out[icebergtest.NameOf(f.Location)], icebergtest.NameOf(d.Location))
		}
	}
	return out
}

// totals are numbers of the summary of main's snapshot.
func totals(t *testing.T, c *icebergtest.Changing, names ...string) []int {
	t.Helper()
	var out []int
	for _, name := range names {
		n, _ := strconv.Atoi(c.Load(t, icebergtest.Events).CurrentSnapshot().Summary.Properties[name])
		out = append(out, n)
	}
	return out
}

// Deletes are added along with the file that they are of, replace those of the file that it replaces, and
// are counted.
//
// spec: write-38, write-39, write-43
func TestDeletesAreCommittedWithTheirFiles(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"2", "3"} {
			c.Bucketed(t, version)
			base := c.Append(t, "first", "a", "b")
			change := c.Replacement("one", base.Snapshot, []string{"a"}, "a1")
			change.Add[0].Sequence = 1
			change.AddDeletes = []catalog.DeleteFile{deletesOf(change.Add[0], version, "d1", 3)}
			change.Summary = map[string]string{"promotion": "p"}
			made, err := c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, map[string][]string{"a1": {"d1"}}, deleted(t, c))
			d := entries(t, c)["d1"]
			require.Equal(t, int64(2), d.SequenceNum())
			if version == "2" {
				require.Equal(t, icebergtest.Location("a1"), string(d.DataFile().LowerBoundValues()[catalog.PathField]))
				require.Equal(t, icebergtest.Location("a1"), string(d.DataFile().UpperBoundValues()[catalog.PathField]))
			} else {
				require.Equal(t, icebergtest.Location("a1"), *d.DataFile().ReferencedDataFile())
			}
			require.Equal(t, int64(1), entries(t, c)["a1"].SequenceNum())
			names := []string{"added-delete-files", "added-dvs", "added-position-delete-files", "added-position-deletes", "total-delete-files", "total-position-deletes", "total-records", "total-files-size"}
			require.Equal(t, map[string][]int{"2": {1, 0, 1, 3, 1, 3, 20, 2100}, "3": {1, 1, 0, 3, 1, 3, 20, 2040}}[version], totals(t, c, names...))
			require.Equal(t, "replace", string(c.Load(t, icebergtest.Events).CurrentSnapshot().Summary.Operation))

			// They are replaced together with the file. Vectors need not be named.
			change = c.Replacement("two", made.Snapshot, []string{"a1"}, "a2")
			change.AddDeletes = []catalog.DeleteFile{deletesOf(change.Add[0], version, "d2", 3)}
			if version == "2" {
				change.RemoveDeletes = []string{icebergtest.Location("d1")}
			}
			made, err = c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, map[string][]string{"a2": {"d2"}}, deleted(t, c))
			require.Equal(t, iceberg.EntryStatusDELETED, entries(t, c)["d1"].Status())
			names = []string{"removed-delete-files", "removed-dvs", "removed-position-delete-files", "removed-position-deletes", "total-delete-files", "total-position-deletes", "total-files-size"}
			require.Equal(t, map[string][]int{"2": {1, 0, 1, 3, 1, 3, 2100}, "3": {1, 1, 0, 3, 1, 3, 2040}}[version], totals(t, c, names...))

			// Other changes carry them over.
			c.Append(t, "third", "c")
			require.Equal(t, map[string][]string{"a2": {"d2"}}, deleted(t, c))
			change = c.Replacement("four", c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID, []string{"b", "c"}, "e", "f")
			_, err = c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, map[string][]string{"a2": {"d2"}}, deleted(t, c))

			// A compaction leaves the deleted rows out.
			change = c.Replacement("five", c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID, []string{"a2"}, "g")
			change.Add[0].Rows, change.DroppedRows = 7, 3
			if version == "2" {
				change.RemoveDeletes = []string{icebergtest.Location("d2")}
			}
			_, err = c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Empty(t, deleted(t, c))
			require.Equal(t, []int{0, 0, 27}, totals(t, c, "total-delete-files", "total-position-deletes", "total-records"))
			require.Empty(t, c.Orphans(t))
			c.Drop(t)
		}
	})
}

// spec: write-39, write-42
func TestDeletesAndRowsThatDoNotFit(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.Bucketed(t, version)
			base := c.Append(t, "first", "a", "b")
			before := c.BytesOf(t)
			refused := func(text string, change func(*commit.Change)) {
				t.Helper()
				one := c.Replacement(icebergtest.Token(text), base.Snapshot, []string{"a"}, "c")
				one.Token = ""
				change(&one)
				_, err := c.Tables.Commit(t.Context(), one)
				require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
				require.ErrorContains(t, err, text)
				require.False(t, commit.Uncertain(err))
				require.Equal(t, before, c.BytesOf(t))
			}
			for _, other := range []string{"2", "3"} {
				if other != version {
					refused("which cannot be added to table ml.events of format version "+version, func(change *commit.Change) {
						change.AddDeletes = []catalog.DeleteFile{deletesOf(change.Add[0], other, "d", 1)}
					})
				}
			}
			refused("removes files with 10 rows and adds files with 9, but dropped_rows is 0", func(change *commit.Change) { change.Add[0].Rows = 9 })
			refused("removes files with 10 rows and adds files with 11, but dropped_rows is 0", func(change *commit.Change) { change.Add[0].Rows = 11 })
			refused("removes files with 10 rows and adds files with 10, but dropped_rows is 1", func(change *commit.Change) { change.DroppedRows = 1 })
			refused("drops 1 rows of table ml.events, but at most 0 rows of the removed files had been deleted", func(change *commit.Change) {
				change.Add[0].Rows, change.DroppedRows = 9, 1
			})
			if version != "1" {
				refused("has sequence number 7, but the last one of table ml.events is 1", func(change *commit.Change) {
					change.Add[0].Sequence = 1
					change.AddDeletes = []catalog.DeleteFile{deletesOf(change.Add[0], version, "d", 1)}
					change.AddDeletes[0].Sequence = 7
				})
			}
			c.Drop(t)
		}
	})
}

// A delete file is removed only if no row comes back: not while a file that stays is older than equality
// deletes, and not from under the only file that position deletes name.
//
// spec: write-41
func TestDeletesOfFilesThatStay(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		base := c.Append(t, "first", "a", "b")
		change := c.Replacement("one", base.Snapshot, []string{"a"}, "c")
		change.AddDeletes = []catalog.DeleteFile{deletesOf(change.Add[0], "2", "d", 2)}
		_, err := c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		c.Deletes(t, map[int]any{1000: int32(1)})
		head := c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		var equal string
		for name, e := range entries(t, c) {
			if e.DataFile().ContentType() == iceberg.EntryContentEqDeletes {
				equal = name
			}
		}
		require.Equal(t, map[string][]string{"b": {equal}, "c": {"d", equal}}, deleted(t, c))
		for text, remove := range map[string]string{
			"delete file " + icebergtest.Location("d") + " of table ml.events cannot be removed: it deletes rows of " + icebergtest.Location("c"): "d",
			"of table ml.events cannot be removed: it deletes rows of " + icebergtest.Location("c"):                                               equal,
			"1 file of the change, such as " + icebergtest.Location("x") + ", is not in branch main":                                              "x",
		} {
			change = c.Replacement(icebergtest.Token("refused"), head, []string{"b"}, "b1")
			change.Token, change.RemoveDeletes = "", []string{icebergtest.Location(remove)}
			_, err = c.Tables.Commit(t.Context(), change)
			icebergtest.IsKind(t, err, fault.Conflict, text)
		}
		require.Equal(t, map[string][]string{"b": {equal}, "c": {"d", equal}}, deleted(t, c))

		// A rewritten file that keeps its age still has them.
		change = c.Replacement("", head, []string{"b", "c"}, "b1", "c1")
		change.Token, change.RemoveDeletes, change.Add[0].Sequence = "", []string{icebergtest.Location("d"), icebergtest.Location(equal)}, 1
		_, err = c.Tables.Commit(t.Context(), change)
		icebergtest.IsKind(t, err, fault.Conflict, "cannot be removed: it deletes rows of "+icebergtest.Location("b1"))
		change.Add[0].Sequence, change.Add[0].Rows, change.DroppedRows = 0, 4, 6
		_, err = c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		require.Empty(t, deleted(t, c))
		require.Equal(t, []int{1, 1, 0}, totals(t, c, "removed-equality-delete-files", "removed-equality-deletes", "total-equality-deletes"))
	})
}

// Deletes that others commit after the snapshot that the change was derived from are a conflict, for vectors
// and for position deletes, however the change moves the deletes that it knows.
//
// spec: write-15
func TestNewDeletesOfFilesWhoseDeletesMove(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"2", "3"} {
			c.Bucketed(t, version)
			base := c.Append(t, "first", "a", "b")
			setup := c.Replacement("setup", base.Snapshot, []string{"a"}, "c")
			setup.AddDeletes = []catalog.DeleteFile{deletesOf(setup.Add[0], version, "d", 2)}
			made, err := c.Tables.Commit(t.Context(), setup)
			require.NoError(t, err)
			change := c.Replacement("move", made.Snapshot, []string{"c"}, "c1")
			change.AddDeletes = []catalog.DeleteFile{deletesOf(change.Add[0], version, "d1", 2)}
			if version == "2" {
				change.RemoveDeletes = []string{icebergtest.Location("d")}
			}
			othersDelete(t, c, "c", icebergtest.Location("more"), map[string]string{"3": icebergtest.Location("d")}[version])
			_, err = c.Tables.Commit(t.Context(), change)
			icebergtest.IsKind(t, err, fault.Conflict, "rows of file "+icebergtest.Location("c")+" of table ml.events were deleted by another commit")
			require.Empty(t, c.Orphans(t))

			// With all of them, it fits.
			change.Base, change.AddDeletes = c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID, []catalog.DeleteFile{deletesOf(change.Add[0], version, "d1", 3)}
			if version == "2" {
				change.RemoveDeletes = append(change.RemoveDeletes, icebergtest.Location("more"))
			}
			_, err = c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, map[string][]string{"c1": {"d1"}}, deleted(t, c))
			c.Drop(t)
		}
	})
}

// othersDelete has another program delete rows of a file by position. Instead of the file's vector, if it
// has one, comes another one.
func othersDelete(t *testing.T, c *icebergtest.Changing, file, at, instead string) {
	t.Helper()
	tbl := c.Load(t, icebergtest.Events)
	format := map[bool]iceberg.FileFormat{false: iceberg.ParquetFile, true: iceberg.PuffinFile}[instead != ""]
	b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentPosDeletes, at, format, map[int]any{1000: int32(1)}, nil, nil, 3, 100)
	require.NoError(t, err)
	b.ReferencedDataFile(icebergtest.Location(file))
	if instead != "" {
		b.ContentOffset(4).ContentSizeInBytes(50)
	}
	tx := tbl.NewTransaction()
	if instead == "" {
		require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(t.Context()))
	} else {
		require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.Build()).RemoveDeletes(entries(t, c)[icebergtest.NameOf(instead)].DataFile()).Commit(t.Context()))
	}
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, icetable.OpDelete, c.Load(t, icebergtest.Events).CurrentSnapshot().Summary.Operation)
}

// spec: write-22
func TestAccidentsWhileDeletesMove(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3"))
	file := func(name string) commit.DataFile {
		f := c.File(name, 1)
		f.Partition = nil
		return f
	}
	_, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Add: []commit.DataFile{file("a0")}})
	require.NoError(t, err)
	n := 0
	var do commit.Change
	eachAccident(t, c, func(t *testing.T) {
		n++
		last, next := icebergtest.Itoa(int64(n-1)), icebergtest.Itoa(int64(n))
		do = c.Replacement("move-"+next, c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID, []string{"a" + last})
		do.Mode, do.Add = commit.Rewrite, []commit.DataFile{file("a" + next)}
		do.AddDeletes = []catalog.DeleteFile{deletesOf(do.Add[0], "3", "d"+next, 1)}
	}, func(tables *icebergcat.Catalog) error {
		_, err := tables.Commit(t.Context(), do)
		return err
	}, func(t *testing.T) {
		require.Equal(t, map[string][]string{"a" + icebergtest.Itoa(int64(n)): {"d" + icebergtest.Itoa(int64(n))}}, deleted(t, c))
		require.Equal(t, []int{1, 1, 1}, totals(t, c, "total-data-files", "total-delete-files", "total-position-deletes"))
	})
}
