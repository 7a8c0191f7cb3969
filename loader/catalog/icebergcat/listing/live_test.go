package listing_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// liveFiles are the names of the live files of the table, of data files without their ends.
func liveFiles(t *testing.T, c *icebergtest.Changing) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	require.NoError(t, c.Tables.LiveFiles(t.Context(), icebergtest.Events, c.Load(t, icebergtest.Events).Metadata().TableUUID().String(), func(location string) {
		out[icebergtest.NameOf(location)] = true
	}))
	return out
}

// Live are the files of all snapshots that the metadata has, of other branches and of none, those that a
// snapshot removed, delete files, manifests, lists, and metadata files.
//
// spec: orphan-2
func TestLiveFilesAreThoseOfAllSnapshots(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		first := c.Append(t, "first", "a", "b")
		require.NoError(t, c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "branch", To: first.Snapshot}))
		_, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "branch", Token: icebergtest.Token("branch"), Add: []commit.DataFile{c.File("c", 1)}})
		require.NoError(t, err)
		_, err = c.Tables.Commit(t.Context(), c.Replacement("replace", first.Snapshot, []string{"a"}, "d"))
		require.NoError(t, err)
		c.Deletes(t, map[int]any{1000: 1})
		undone := c.Append(t, "undone", "e")
		require.NoError(t, c.Tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, Ref: commit.Main, From: undone.Parent, To: undone.Snapshot}))

		live := liveFiles(t, c)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.True(t, live[name], name)
		}
		require.False(t, live["f"])
		folder, err := os.ReadDir(filepath.Dir(icebergtest.Local(t, c.Load(t, icebergtest.Events).MetadataLocation())))
		require.NoError(t, err)
		require.Greater(t, len(folder), 12)
		for _, file := range folder {
			require.True(t, live[file.Name()], file.Name())
		}
		deletes := 0
		for _, s := range c.Load(t, icebergtest.Events).Metadata().Snapshots() {
			fs, err := c.Load(t, icebergtest.Events).FS(t.Context())
			require.NoError(t, err)
			manifests, err := s.Manifests(fs)
			require.NoError(t, err)
			for _, m := range manifests {
				for e, err := range m.Entries(fs, false) {
					require.NoError(t, err)
					require.True(t, live[icebergtest.NameOf(e.DataFile().FilePath())], e.DataFile().FilePath())
					if e.DataFile().ContentType() != iceberg.EntryContentData {
						deletes++
					}
				}
			}
		}
		require.Positive(t, deletes)

		c.Expire(t, icebergtest.Events, undone.Snapshot)
		require.False(t, liveFiles(t, c)["e"])
	})
}

// A file that a kept snapshot removed is live, also if the snapshots that had it have expired.
//
// spec: orphan-2
func TestRemovedFilesAreLive(t *testing.T) {
	t.Parallel()
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	first := c.Append(t, "first", "a")
	_, err := c.Tables.Commit(t.Context(), c.Replacement("replace", first.Snapshot, []string{"a"}, "b"))
	require.NoError(t, err)
	c.Expire(t, icebergtest.Events, first.Snapshot)
	require.Len(t, c.Load(t, icebergtest.Events).Metadata().Snapshots(), 1)
	require.True(t, liveFiles(t, c)["a"])
	require.True(t, liveFiles(t, c)["b"])
}

// spec: orphan-5, orphan-11, orphan-12, orphan-13
func TestLiveFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	first := c.Append(t, "first", "a")
	c.Append(t, "second", "b")
	uuid := c.Load(t, icebergtest.Events).Metadata().TableUUID().String()
	live := func(tables *icebergcat.Catalog, uuid string) error {
		return tables.LiveFiles(t.Context(), icebergtest.Events, uuid, func(string) {})
	}
	require.NoError(t, live(c.Tables, uuid))
	icebergtest.IsKind(t, live(c.Tables, "00000000-0000-4000-8000-000000000000"), fault.Expired, icebergtest.Events)

	limited := budget.New(20_000)
	icebergtest.IsKind(t, live(c.Another(t, func(o *icebergcat.Options) { o.Budget = limited }), uuid), fault.Exhausted, icebergtest.Events)
	require.Zero(t, limited.Used())

	list := icebergtest.Local(t, c.Load(t, icebergtest.Events).Metadata().SnapshotByID(first.Snapshot).ManifestList)
	whole, err := os.ReadFile(list) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, whole[:len(whole)-30], 0o600))
	isCorrupt := func(text string) {
		err := live(c.Another(t, nil), uuid)
		require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, text)
	}
	isCorrupt(filepath.Base(list))
	require.NoError(t, os.Remove(list))
	isCorrupt(filepath.Base(list))

	last := c.Load(t, icebergtest.Events).Metadata().CurrentSnapshot()
	require.NoError(t, os.WriteFile(list, whole, 0o600))
	require.NoError(t, os.WriteFile(icebergtest.Local(t, last.ManifestList), whole, 0o600))
	isCorrupt("has manifests of 1 data file, but snapshot")
}

// spec: orphan-9
func TestMetadataFilesTellTheirTable(t *testing.T) {
	t.Parallel()
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	c.Append(t, "first", "a")
	meta := c.Load(t, icebergtest.Events)
	uuid := meta.Metadata().TableUUID().String()
	var named []string
	owner, snapshots, err := c.Tables.MetadataFile(t.Context(), icebergtest.Events, uuid, meta.MetadataLocation(), func(text string) { named = append(named, text) })
	require.NoError(t, err)
	require.Equal(t, uuid, owner)
	require.Equal(t, 1, snapshots)
	for entry := range meta.Metadata().PreviousFiles() {
		require.True(t, slices.Contains(named, entry.MetadataFile))
	}
	broken := icebergtest.Local(t, meta.MetadataLocation()) + ".metadata.json"
	require.NoError(t, os.WriteFile(broken, []byte(`{"table-uuid": "`), 0o600))
	for _, file := range []string{broken, broken + "-missing"} {
		owner, snapshots, err = c.Tables.MetadataFile(t.Context(), icebergtest.Events, uuid, file, nil)
		require.NoError(t, err)
		require.Empty(t, owner)
		require.Zero(t, snapshots)
	}
	limited := c.Another(t, func(o *icebergcat.Options) { o.MaxMetadata = 10 })
	_, _, err = limited.MetadataFile(t.Context(), icebergtest.Events, uuid, meta.MetadataLocation(), nil)
	icebergtest.IsKind(t, err, fault.Exhausted, icebergtest.Events)
}
