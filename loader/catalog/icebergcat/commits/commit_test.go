package commits_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// spec: write-5, write-6
func TestAppendAddsASnapshot(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		for _, version := range []string{"1", "2", "3"} {
			c.Bucketed(t, version)
			first := c.Append(t, "first", "a", "b")
			require.Equal(t, commit.Committed{Snapshot: first.Snapshot, Tries: 1, Time: first.Time}, first)
			change := commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("second"), Add: []commit.DataFile{c.File("c", 2)}, Summary: map[string]string{"feature": "f"}}
			second, err := c.Tables.Commit(t.Context(), change)
			require.NoError(t, err)
			require.Equal(t, first.Snapshot, second.Parent)
			require.Equal(t, []string{"a", "b", "c"}, c.Files(t, ""))

			meta := c.Load(t, icebergtest.Events).Metadata()
			s := meta.CurrentSnapshot()
			require.Equal(t, second.Snapshot, s.SnapshotID)
			require.Equal(t, icetable.OpAppend, s.Summary.Operation)
			require.Equal(t, iceberg.Properties{
				"penstock.token": change.Token, "feature": "f", "added-data-files": "1", "added-records": "10", "added-files-size": "1000",
				"changed-partition-count": "1", "total-data-files": "3", "total-records": "30", "total-files-size": "3000",
				"total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0",
			}, s.Summary.Properties)
			require.Len(t, meta.Snapshots(), 2)
			if version != "1" {
				require.Equal(t, int64(2), s.SequenceNumber)
				require.Equal(t, int64(2), meta.LastSequenceNumber())
			}
			if version == "3" {
				require.Equal(t, int64(20), *s.FirstRowID)
				require.Equal(t, int64(10), *s.AddedRows)
				require.Equal(t, int64(30), meta.NextRowID())
			}
			require.Empty(t, c.Orphans(t))
			c.Drop(t)
		}
	})
}

// What was committed is what the manifests say of each file.
//
// spec: write-7
func TestManifestsDescribeTheAddedFiles(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "3")
	c.Append(t, "first", "a")
	spec := iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1001, Name: "id_part", Transform: iceberg.TruncateTransform{Width: 10}})
	c.Update(t, icebergtest.Events, icetable.NewAddPartitionSpecUpdate(&spec, false), icetable.NewSetDefaultSpecUpdate(-1))
	other := c.File("b", 30)
	other.Spec, other.SortOrder = 1, 0
	_, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("both"), Add: []commit.DataFile{c.File("c", 3), other}})
	require.NoError(t, err)
	tbl := c.Load(t, icebergtest.Events)
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fs)
	require.NoError(t, err)
	require.Len(t, manifests, 3, "one for each spec, and the one before")
	rows := map[int64]bool{}
	for _, m := range manifests {
		for e, err := range m.Entries(fs, false) {
			require.NoError(t, err)
			d := e.DataFile()
			require.Equal(t, m.PartitionSpecID(), d.SpecID())
			require.Equal(t, iceberg.EntryStatusADDED, e.Status())
			require.Equal(t, int64(10), d.Count())
			require.Equal(t, int64(1000), d.FileSizeBytes())
			require.Equal(t, map[int]int64{1: 100}, d.ColumnSizes())
			require.Equal(t, map[int]int64{1: 10}, d.ValueCounts())
			require.Equal(t, map[int]int64{1: 0}, d.NullValueCounts())
			require.Equal(t, map[int][]byte{1: {1, 0, 0, 0, 0, 0, 0, 0}}, d.LowerBoundValues())
			require.Equal(t, map[int][]byte{1: {9, 0, 0, 0, 0, 0, 0, 0}}, d.UpperBoundValues())
			require.Equal(t, []int64{4}, d.SplitOffsets())
			rows[*d.FirstRowID()] = true
			switch d.FilePath() {
			case icebergtest.Location("b"):
				require.Equal(t, map[int]any{1001: int64(30)}, d.Partition())
			case icebergtest.Location("c"):
				require.Equal(t, map[int]any{1000: int32(3)}, d.Partition())
			}
		}
	}
	require.Equal(t, map[int64]bool{0: true, 10: true, 20: true}, rows, "each row has an id of its own")
}

// spec: write-1, write-2
func TestOnlyAllowedNamespacesAreWrittenTo(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		made := c.Append(t, "first", "a")
		other := c.Append(t, "second", "b")
		move := commit.Move{Table: icebergtest.Events, Ref: "main", From: made.Snapshot, To: other.Snapshot}
		before, location := c.BytesOf(t), c.Load(t, icebergtest.Events).MetadataLocation()
		for _, allowed := range [][]string{nil, {"m"}, {"ml.deeper", "features"}} {
			tables := c.Another(t, func(o *icebergcat.Options) { o.WriteNamespaces = allowed })
			for name, call := range map[string]func() error{
				"commit": func() error {
					_, err := tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x", 1)}})
					return err
				},
				"create": func() error { return tables.Create(t.Context(), commit.NewTable{Table: "ml.other"}) },
				"move": func() error {
					return tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "b", To: made.Snapshot})
				},
				"undo": func() error { return tables.Undo(t.Context(), move) },
				"publish": func() error {
					_, err := tables.Publish(t.Context(), icebergtest.Events, "main")
					return err
				},
			} {
				err := call()
				require.Equal(t, fault.Forbidden.String(), fault.KindOf(err).String(), "%s: %v", name, err)
				require.ErrorContains(t, err, "list ml in writes.namespaces of the catalog's block")
				require.False(t, commit.Uncertain(err))
			}
		}
		require.Equal(t, before, c.BytesOf(t))
		require.Equal(t, location, c.Load(t, icebergtest.Events).MetadataLocation())
	})
}

// Nessie takes history@dev for the table history of its branch dev, which nothing allows to be written to.
//
// spec: write-59
func TestTablesOfCatalogReferencesAreNotWrittenTo(t *testing.T) {
	c := icebergtest.NewWriter(t).ChangesByREST(t)
	for _, table := range []string{"ml.events@dev", "ml.events#0011", "ml.`events@main`"} {
		_, err := c.Tables.Commit(t.Context(), commit.Change{Table: table, Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x", 1)}})
		icebergtest.IsKind(t, err, fault.Forbidden, "contains a branch, tag or commit of the catalog")
		icebergtest.IsKind(t, c.Tables.Create(t.Context(), commit.NewTable{Table: table}), fault.Forbidden, table)
	}
}

// spec: write-3
func TestFoldersAreNotWrittenTo(t *testing.T) {
	o := icebergcat.Options{Name: "lake", Type: "directory", Warehouse: t.TempDir(), WriteNamespaces: []string{"ml"}}
	_, err := icebergcat.Open(t.Context(), o)
	icebergtest.IsKind(t, err, fault.Invalid, "writes: a catalog of type directory cannot be written to")
}

// spec: write-4
func TestReadingWritesNothing(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		c.Append(t, "first", "a")
		before, location := c.BytesOf(t), c.Load(t, icebergtest.Events).MetadataLocation()
		state, err := c.Tables.State(t.Context(), icebergtest.Events, "")
		require.NoError(t, err)
		require.Equal(t, 2, state.Version)
		require.Equal(t, 1, state.LastColumn)
		pinned, err := c.Tables.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		require.Equal(t, pinned.Pin, state.Table.Pin)
		_, err = c.Tables.Files(t.Context(), pinned, []int{1}, nil)
		require.NoError(t, err)
		require.Equal(t, before, c.BytesOf(t))
		require.Equal(t, location, c.Load(t, icebergtest.Events).MetadataLocation())
	})
}

// spec: write-8
func TestATokenIsCommittedOnce(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		change := commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("once"), Add: []commit.DataFile{c.File("a", 1)}}
		first, err := c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		c.Append(t, "later", "b")
		before := c.BytesOf(t)
		again, err := c.Another(t, nil).Commit(t.Context(), change)
		require.NoError(t, err)
		require.Equal(t, commit.Committed{Snapshot: first.Snapshot, Existed: true, Token: change.Token, Time: first.Time}, again)
		require.Equal(t, before, c.BytesOf(t))
		require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
	})
}

// spec: write-9
func TestTokensExpireWithTheSnapshots(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	old := icebergtest.Token("old")
	change := commit.Change{Table: icebergtest.Events, Token: old, Add: []commit.DataFile{c.File("a", 1)}}
	first, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	unused := icebergtest.Token("unused")
	second := c.Append(t, "second", "b")

	// While the branch's whole history is there, a token of any age is new if it is not found.
	ancient := commit.NewToken(time.Now().AddDate(-1, 0, 0), "ancient")
	_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: ancient, Add: []commit.DataFile{c.File("c", 1)}})
	require.NoError(t, err)

	c.Expire(t, icebergtest.Events, first.Snapshot)
	before := c.BytesOf(t)
	for _, token := range []string{old, unused, commit.NewToken(second.Time, "same-time")} {
		change.Token = token
		_, err = c.Tables.Commit(t.Context(), change)
		icebergtest.IsKind(t, err, fault.Expired, "token "+token+" is older than snapshot "+strconv.FormatInt(second.Snapshot, 10))
		require.False(t, commit.Uncertain(err))
	}
	require.Equal(t, before, c.BytesOf(t))
	change.Token, change.Add = commit.NewToken(second.Time.Add(time.Millisecond), "new"), []commit.DataFile{c.File("d", 1)}
	_, err = c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, c.Files(t, ""))
}

// A token without a time is known as long as its snapshot is kept.
//
// spec: write-68
func TestTokensWithoutATimeAreForgotten(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	change := commit.Change{Table: icebergtest.Events, Token: "scheduled__2026-11-26T00:00:00+00:00", Add: []commit.DataFile{c.File("a", 1)}}
	first, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	again, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	require.Equal(t, first.Snapshot, again.Snapshot)
	require.True(t, again.Existed)
	c.Append(t, "second", "b")
	c.Expire(t, icebergtest.Events, first.Snapshot)
	change.Add = []commit.DataFile{c.File("c", 1)}
	later, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	require.False(t, later.Existed)
	require.Equal(t, []string{"a", "b", "c"}, c.Files(t, ""))
}

// A snapshot is never older than its token, whatever the clocks say, so that no token that was
// committed is newer than the oldest snapshot that is kept.
//
// spec: write-9
func TestSnapshotsAreNotOlderThanTheirTokens(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	ahead := time.Now().Add(50 * time.Second).Truncate(time.Millisecond)
	first, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: commit.NewToken(ahead, "a"), Add: []commit.DataFile{c.File("a", 1)}})
	require.NoError(t, err)
	require.True(t, first.Time.Equal(ahead), "%s", first.Time)
	second := c.Append(t, "b", "b")
	require.False(t, second.Time.Before(first.Time))
	_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: commit.NewToken(time.Now().Add(2*time.Minute), "c"), Add: []commit.DataFile{c.File("c", 1)}})
	icebergtest.IsKind(t, err, fault.Invalid, "correct the clock")
}

// A snapshot of another writer may be older than its parent, whose token is then newer than it.
//
// spec: write-9
func TestTokensExpireBesideASlowClock(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	ahead := time.Now().Add(50 * time.Second)
	change := commit.Change{Table: icebergtest.Events, Token: commit.NewToken(ahead, "a"), Add: []commit.DataFile{c.File("a", 1)}}
	first, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	other := c.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, c.Load(t, icebergtest.Events).Spec(), icebergtest.Location("other"), map[int]any{1000: 1}, nil))
	require.True(t, c.Committed(t, other).Before(first.Time))
	c.Expire(t, icebergtest.Events, first.Snapshot)
	_, err = c.Tables.Commit(t.Context(), change)
	icebergtest.IsKind(t, err, fault.Expired, "is older than snapshot "+strconv.FormatInt(other, 10))
	change.Fresh = true
	_, err = c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
}

// spec: write-10
func TestTokensOfOtherBranchesAreInConflict(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		first := c.Append(t, "first", "a")
		change := commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("undone"), Add: []commit.DataFile{c.File("b", 1)}}
		made, err := c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		uuid := c.Load(t, icebergtest.Events).Metadata().TableUUID().String()
		require.NoError(t, c.Tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, UUID: uuid, Ref: commit.Main, From: first.Snapshot, To: made.Snapshot}))
		_, err = c.Tables.Commit(t.Context(), change)
		icebergtest.IsKind(t, err, fault.Conflict, "it was undone, or is of another branch")
		require.Equal(t, []string{"a"}, c.Files(t, ""))
	})
}
