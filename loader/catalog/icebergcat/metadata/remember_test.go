package metadata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// remembering opens the writer's catalog with a cache of a size.
func remembering(t *testing.T, w *icebergtest.Writer, bytes int64, from store.Store, memory int64) (*icebergcat.Catalog, *budget.Budget) {
	t.Helper()
	manifests, err := cache.New[[]byte](bytes)
	require.NoError(t, err)
	t.Cleanup(manifests.Close)
	o := w.Options()
	o.Store, o.Manifests, o.Budget = from, manifests, budget.New(memory)
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	return c, o.Budget
}

// Listing a table again reads no manifest, and after a commit only what the commit wrote,
// for any number of manifests and any caller.
func TestManifestsAreCached(t *testing.T) {
	const commits = 6
	w := icebergtest.NewWriter(t)
	spec, ids := icebergtest.Appends(t, w, commits)
	opened := &icebergtest.Opens{Store: store.Local{}}
	c, held := remembering(t, w, 1<<20, opened, 64<<20)
	listed := func(want, reads int) {
		t.Helper()
		opened.Files = nil
		files, err := icebergtest.List(t, c, 1)
		require.NoError(t, err)
		require.Len(t, files, want)
		require.Len(t, opened.Files, 2+reads, "the metadata twice, for table and files, and then: %v", opened.Files)
		require.Zero(t, held.Used())
	}
	listed(commits, 1+commits)
	listed(commits, 0)
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("6"), nil, nil))
	listed(commits+1, 2)
	listed(commits+1, 0)
	opened.Files = nil
	got, err := icebergtest.Since(t, c, ids[commits-3])
	require.NoError(t, err)
	require.Equal(t, []string{"4", "5", "6"}, got)
	require.Len(t, opened.Files, 3, "the metadata twice, and the manifest list of the one commit that was not read before: %v", opened.Files)

	var group errgroup.Group
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	opened.Files = nil
	for range 8 {
		group.Go(func() error {
			files, err := c.Files(t.Context(), table, []int{1}, nil)
			if err == nil && len(files) != commits+1 {
				err = fault.New(fault.Internal, "%d files are listed", len(files))
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, opened.Files, 8, "the metadata alone")
}

// If the cache has no room, manifests are read again. Failures are not cached.
func TestUncachedManifests(t *testing.T) {
	w := icebergtest.NewWriter(t)
	icebergtest.Appends(t, w, 3)
	faulty := errstore.New(store.Local{})
	c, held := remembering(t, w, 1, faulty, 64<<20)
	for range 3 {
		files, err := icebergtest.List(t, c, 1)
		require.NoError(t, err)
		require.Len(t, files, 3)
	}
	c, held2 := remembering(t, w, 1<<20, faulty, 64<<20)
	down := fault.New(fault.Unavailable, "storage is down")
	manifest := w.Load(t, icebergtest.Events).CurrentSnapshot().ManifestList
	faulty.Set(errstore.Rule{Location: manifest, Call: errstore.Read, Action: errstore.Fail(down)})
	_, err := icebergtest.List(t, c, 1)
	require.ErrorIs(t, err, down)
	faulty.Set()
	files, err := icebergtest.List(t, c, 1)
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Zero(t, held.Used()+held2.Used())
	require.Zero(t, faulty.Counts().Open)
}

// A caller that lists by cached manifests is charged for them, as if it had read them.
func TestCachedManifestsAreCharged(t *testing.T) {
	w := icebergtest.NewWriter(t)
	icebergtest.Appends(t, w, 1)
	manifests, err := cache.New[[]byte](1 << 20)
	require.NoError(t, err)
	defer manifests.Close()
	peak := func(most int64) (int64, error) {
		o := w.Options()
		o.Manifests, o.Budget = manifests, budget.New(most)
		c, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		_, err = icebergtest.List(t, c, 1)
		require.Zero(t, o.Budget.Used())
		return o.Budget.Peak(), err
	}
	read, err := peak(64 << 20)
	require.NoError(t, err)
	remembered, err := peak(64 << 20)
	require.NoError(t, err)
	require.Equal(t, read, remembered)
	_, err = peak(read - 1)
	require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String())
}

// A table that was created again, with metadata files of the same names as the old one's, is
// listed by its own metadata.
func TestManifestsOfRecreatedTables(t *testing.T) {
	w := icebergtest.NewWriter(t)
	icebergtest.Appends(t, w, 1)
	c, _ := remembering(t, w, 1<<20, store.Local{}, 64<<20)
	_, err := icebergtest.List(t, c, 1)
	require.NoError(t, err)

	old := w.Load(t, icebergtest.Events)
	spec := w.Create(t, "ml.other", icebergtest.IDSchema()).Spec()
	w.Add(t, "ml.other", "", icebergtest.DataFile(t, spec, icebergtest.Location("other"), nil, nil))
	other := w.Load(t, "ml.other")
	content, err := os.ReadFile(icebergtest.Local(t, other.CurrentSnapshot().ManifestList))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(icebergtest.Local(t, old.CurrentSnapshot().ManifestList), content, 0o600))
	text, err := os.ReadFile(icebergtest.Local(t, old.MetadataLocation()))
	require.NoError(t, err)
	text = bytes.ReplaceAll(text, []byte(old.Metadata().TableUUID().String()), []byte(other.Metadata().TableUUID().String()))
	require.NoError(t, os.WriteFile(icebergtest.Local(t, old.MetadataLocation()), text, 0o600))
	files, err := icebergtest.List(t, c, 1)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, icebergtest.Location("other"), files[0].Location)
}

// A metadata file on S3 is read once for all callers. A file whose name may be reused, or on
// the local disk, is read each time.
func TestMetadataIsCached(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	text, err := os.ReadFile(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	for name, want := range map[string]int{
		"00001-6f3ad6d4-4c3a-4b0a-9d5b-9d3a1c7f0e11.metadata.json": 1, "v7.metadata.json": 4,
	} {
		path := filepath.Join(t.TempDir(), "catalog.db")
		icebergtest.CatalogFile(t, path, "DELETE", "s3://b/"+name)
		files := storetest.NewMemory()
		files.Put("s3://b/"+name, text)
		opened := &icebergtest.Opens{Store: files}
		manifests, err := cache.New[[]byte](1 << 20)
		require.NoError(t, err)
		defer manifests.Close()
		limit := budget.New(64 << 20)
		c, err := icebergcat.Open(t.Context(), icebergcat.Options{
			Name: "default", Type: "sql", URI: "sqlite:///" + path, Store: store.Local{}, Manifests: manifests, Budget: limit,
			Stores: icebergtest.AsS3(opened), AllowedPrefixes: []string{"/", "s3://b"},
		})
		require.NoError(t, err)
		for range 2 {
			found, err := icebergtest.List(t, c, 1)
			require.NoError(t, err)
			require.Len(t, found, 1)
		}
		require.Len(t, opened.Files, want, "%v", opened.Files)
		require.Zero(t, limit.Used())
	}
}

// Damaged files are not cached: once the file is restored, the table is read again.
func TestDamageIsNotCached(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	table := w.Load(t, icebergtest.Events)
	const onS3 = "s3://b/00001-6f3ad6d4-4c3a-4b0a-9d5b-9d3a1c7f0e11.metadata.json"
	path := filepath.Join(t.TempDir(), "catalog.db")
	icebergtest.CatalogFile(t, path, "DELETE", onS3)
	files := storetest.NewMemory()
	list := icebergtest.Local(t, table.CurrentSnapshot().ManifestList)
	manifests, err := table.CurrentSnapshot().Manifests(iceio.LocalFS{})
	require.NoError(t, err)
	for _, name := range []string{icebergtest.Local(t, table.MetadataLocation()), list, icebergtest.Local(t, manifests[0].FilePath())} {
		whole, err := os.ReadFile(name)
		require.NoError(t, err)
		put := func(content []byte) {
			if filepath.Ext(name) == ".json" {
				files.Put(onS3, content)
				return
			}
			require.NoError(t, os.WriteFile(name, content, 0o600))
		}
		for _, at := range []int{0, len(whole) / 2, len(whole) - 8} {
			manifests, err := cache.New[[]byte](1 << 20)
			require.NoError(t, err)
			c, err := icebergcat.Open(t.Context(), icebergcat.Options{
				Name: "default", Type: "sql", URI: "sqlite:///" + path, Store: store.Local{}, Manifests: manifests,
				Stores: icebergtest.AsS3(files), AllowedPrefixes: []string{"/", "s3://b"},
			})
			require.NoError(t, err)
			read := func() error {
				pinned, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
				if err == nil {
					_, err = c.Files(t.Context(), pinned, []int{1}, nil)
				}
				return err
			}
			damaged := bytes.Clone(whole)
			copy(damaged[at:], "\x00\xff\x00\xff\x00\xff\x00\xff")
			put(damaged)
			require.Equal(t, fault.Corrupt.String(), fault.KindOf(read()).String(), "%s at %d", name, at)
			put(whole)
			require.NoError(t, read(), "%s at %d", name, at)
			c.Close()
			manifests.Close()
		}
	}
}
