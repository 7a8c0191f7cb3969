package icebergcat_test

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
)

// live are the names of the live files of the table, of data files without their ends.
func (c *changing) live(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	require.NoError(t, c.tables.LiveFiles(t.Context(), events, c.load(t, events).Metadata().TableUUID().String(), func(location string) {
		out[nameOf(location)] = true
	}))
	return out
}

// Live are the files of all snapshots that the metadata has, of other branches and of none, those that a
// snapshot removed, delete files, manifests, lists, and metadata files.
//
// spec: orphan-2
func TestLiveFilesAreThoseOfAllSnapshots(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		first := c.append(t, "first", "a", "b")
		require.NoError(t, c.tables.Move(t.Context(), commit.Move{Table: events, Ref: "branch", To: first.Snapshot}))
		_, err := c.tables.Commit(t.Context(), commit.Change{Table: events, Branch: "branch", Token: token("branch"), Add: []commit.DataFile{c.file("c", 1)}})
		require.NoError(t, err)
		_, err = c.tables.Commit(t.Context(), c.replacement("replace", first.Snapshot, []string{"a"}, "d"))
		require.NoError(t, err)
		c.deletes(t, map[int]any{1000: 1})
		undone := c.append(t, "undone", "e")
		require.NoError(t, c.tables.Undo(t.Context(), commit.Move{Table: events, Ref: commit.Main, From: undone.Parent, To: undone.Snapshot}))

		live := c.live(t)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.True(t, live[name], name)
		}
		require.False(t, live["f"])
		folder, err := os.ReadDir(filepath.Dir(local(t, c.load(t, events).MetadataLocation())))
		require.NoError(t, err)
		require.Greater(t, len(folder), 12)
		for _, file := range folder {
			require.True(t, live[file.Name()], file.Name())
		}
		deletes := 0
		for _, s := range c.load(t, events).Metadata().Snapshots() {
			fs, err := c.load(t, events).FS(t.Context())
			require.NoError(t, err)
			manifests, err := s.Manifests(fs)
			require.NoError(t, err)
			for _, m := range manifests {
				for e, err := range m.Entries(fs, false) {
					require.NoError(t, err)
					require.True(t, live[nameOf(e.DataFile().FilePath())], e.DataFile().FilePath())
					if e.DataFile().ContentType() != iceberg.EntryContentData {
						deletes++
					}
				}
			}
		}
		require.Positive(t, deletes)

		c.expire(t, events, undone.Snapshot)
		require.False(t, c.live(t)["e"])
	})
}

// A file that a kept snapshot removed is live, also if the snapshots that had it have expired.
//
// spec: orphan-2
func TestRemovedFilesAreLive(t *testing.T) {
	t.Parallel()
	c := newWriter(t).changes(t)
	c.bucketed(t, "2")
	first := c.append(t, "first", "a")
	_, err := c.tables.Commit(t.Context(), c.replacement("replace", first.Snapshot, []string{"a"}, "b"))
	require.NoError(t, err)
	c.expire(t, events, first.Snapshot)
	require.Len(t, c.load(t, events).Metadata().Snapshots(), 1)
	require.True(t, c.live(t)["a"])
	require.True(t, c.live(t)["b"])
}

// spec: orphan-5, orphan-11, orphan-12, orphan-13
func TestLiveFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := newWriter(t).changes(t)
	c.bucketed(t, "2")
	first := c.append(t, "first", "a")
	c.append(t, "second", "b")
	uuid := c.load(t, events).Metadata().TableUUID().String()
	live := func(tables *icebergcat.Catalog, uuid string) error {
		return tables.LiveFiles(t.Context(), events, uuid, func(string) {})
	}
	require.NoError(t, live(c.tables, uuid))
	isKind(t, live(c.tables, "00000000-0000-4000-8000-000000000000"), fault.Expired, events)

	limited := budget.New(20_000)
	isKind(t, live(c.another(t, func(o *icebergcat.Options) { o.Budget = limited }), uuid), fault.Exhausted, events)
	require.Zero(t, limited.Used())

	list := local(t, c.load(t, events).Metadata().SnapshotByID(first.Snapshot).ManifestList)
	whole, err := os.ReadFile(list) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, whole[:len(whole)-30], 0o600))
	isCorrupt := func(text string) {
		err := live(c.another(t, nil), uuid)
		require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, text)
	}
	isCorrupt(filepath.Base(list))
	require.NoError(t, os.Remove(list))
	isCorrupt(filepath.Base(list))

	last := c.load(t, events).Metadata().CurrentSnapshot()
	require.NoError(t, os.WriteFile(list, whole, 0o600))
	require.NoError(t, os.WriteFile(local(t, last.ManifestList), whole, 0o600))
	isCorrupt("has manifests of 1 data file, but snapshot")
}

// spec: orphan-9
func TestMetadataFilesTellTheirTable(t *testing.T) {
	t.Parallel()
	c := newWriter(t).changes(t)
	c.bucketed(t, "2")
	c.append(t, "first", "a")
	meta := c.load(t, events)
	uuid := meta.Metadata().TableUUID().String()
	var named []string
	owner, snapshots, err := c.tables.MetadataFile(t.Context(), events, uuid, meta.MetadataLocation(), func(text string) { named = append(named, text) })
	require.NoError(t, err)
	require.Equal(t, uuid, owner)
	require.Equal(t, 1, snapshots)
	for entry := range meta.Metadata().PreviousFiles() {
		require.True(t, slices.Contains(named, entry.MetadataFile))
	}
	broken := local(t, meta.MetadataLocation()) + ".metadata.json"
	require.NoError(t, os.WriteFile(broken, []byte(`{"table-uuid": "`), 0o600))
	for _, file := range []string{broken, broken + "-missing"} {
		owner, snapshots, err = c.tables.MetadataFile(t.Context(), events, uuid, file, nil)
		require.NoError(t, err)
		require.Empty(t, owner)
		require.Zero(t, snapshots)
	}
	limited := c.another(t, func(o *icebergcat.Options) { o.MaxMetadata = 10 })
	_, _, err = limited.MetadataFile(t.Context(), events, uuid, meta.MetadataLocation(), nil)
	isKind(t, err, fault.Exhausted, events)
}
