package orphans_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/orphans"
)

// metadataText is the content of a metadata file.
type metadataText struct {
	owner     string
	snapshots int
	names     []string
}

// oneTable is a catalog of one table with the uuid t.
type oneTable struct {
	files    *storetest.Memory
	remote   orphans.Remover // instead of files, if not nil
	folder   string          // "" is /t
	live     []string
	metadata map[string]metadataText
	loading  func() // called when the metadata is loaded; may be nil
	failed   error  // error of loading the metadata
	read     []string
	current  []string // metadata files of all tables
	unlisted bool     // the catalog does not list its tables
	broken   error    // error of listing the tables
}

func (o *oneTable) Folder(context.Context, string) (orphans.TableFolder, error) {
	return orphans.TableFolder{UUID: "t", Location: cmp.Or(o.folder, "/t")}, nil
}

func (o *oneTable) Files(context.Context, string, string) (orphans.Remover, error) {
	if o.remote != nil {
		return o.remote, nil
	}
	return o.files, nil
}

func (o *oneTable) LiveFiles(_ context.Context, _, _ string, each func(string)) error {
	if o.loading != nil {
		o.loading()
	}
	for _, location := range o.live {
		each(location)
	}
	return o.failed
}

func (o *oneTable) MetadataFile(_ context.Context, _, _, location string, each func(string)) (string, int, error) {
	o.read = append(o.read, location)
	text := o.metadata[location]
	for _, name := range text.names {
		each(name)
	}
	return text.owner, text.snapshots, nil
}

func (o *oneTable) CurrentMetadata(context.Context) ([]string, bool, error) {
	return o.current, !o.unlisted, o.broken
}

func (o *oneTable) find(t *testing.T) ([]string, error) {
	t.Helper()
	found, err := search().Find(t.Context(), o, "ml.t", &budget.Reservation{})
	return locations(found.Entries), err
}

// A file that is committed after the listing is kept, since the metadata is loaded later.
//
// spec: orphan-4
func TestFilesCommittedMeanwhileAreKept(t *testing.T) {
	o := &oneTable{files: table(t, []string{"/t/data/own-1", "/t/data/own-2"}, nil)}
	o.loading = func() {
		o.live = []string{"file:///t/data/own-1", "/t/data/own-3"}
		o.files.Put("/t/data/own-3", []byte("x"))
		o.files.SetModified("/t/data/own-3", old())
	}
	left, err := o.find(t)
	require.NoError(t, err)
	require.Equal(t, []string{"/t/data/own-2"}, left)
	o.failed = errors.New("a manifest cannot be read")
	left, err = o.find(t)
	require.ErrorIs(t, err, o.failed)
	require.Empty(t, left)
}

// Metadata files that the table does not name are read, except those that a newer one names.
//
// spec: orphan-9
func TestFoldersOfSeveralTables(t *testing.T) {
	named := func(name string) string { return "/t/metadata/" + name + ".metadata.json" }
	o := &oneTable{
		files: table(t, []string{"/t/own-1", "/t/own-live.metadata.json", named("own-lost"), named("older"), named("old"), named("own-empty"), named("broken")}, nil),
		live:  []string{"/t/own-live.metadata.json"},
		metadata: map[string]metadataText{
			named("old"):       {owner: "t", snapshots: 2, names: []string{"/t/own-1", "file:" + named("older")}},
			named("older"):     {owner: "other", snapshots: 1},
			named("own-lost"):  {owner: "t", snapshots: 3},
			named("own-empty"): {owner: "other"},
		},
	}
	o.files.SetModified(named("older"), old().Add(-time.Hour))
	left, err := o.find(t)
	require.NoError(t, err)
	require.Equal(t, []string{named("own-empty"), named("own-lost"), "/t/own-1"}, left)
	slices.Sort(o.read)
	require.Equal(t, []string{named("broken"), named("old"), named("own-empty"), named("own-lost")}, o.read)

	for _, other := range []metadataText{{owner: "other", snapshots: 1}, {snapshots: 1}} {
		o.metadata[named("broken")] = other
		left, err = o.find(t)
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		require.ErrorContains(t, err, named("broken"))
		require.Empty(t, left)
	}
	o.read, o.live = nil, append(o.live, "own-1", named("own-lost"), named("own-empty"))
	left, err = o.find(t)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, o.read, "without orphan files, nothing more is read")
}

// The metadata files of a table without snapshots are kept if the catalog has that table, which may
// have been renamed. These are its current metadata file and the files that it names. Other
// metadata files belong to tables whose creation failed.
//
// spec: orphan-9
func TestEmptyTablesInAFolder(t *testing.T) {
	named := func(name string) string { return "/t/metadata/" + name + ".metadata.json" }
	o := &oneTable{
		files:    table(t, []string{named("own-0"), named("own-1"), named("own-failed")}, nil),
		metadata: map[string]metadataText{named("own-0"): {owner: "b"}, named("own-1"): {owner: "b"}, named("own-failed"): {owner: "c"}},
	}
	find := func(want ...string) {
		t.Helper()
		left, err := o.find(t)
		require.NoError(t, err)
		require.Equal(t, want, left)
	}
	find(named("own-0"), named("own-1"), named("own-failed"))
	o.current = []string{"file://" + named("own-1"), "/other" + named("own-failed")}
	find(named("own-0"), named("own-failed"))
	o.metadata["file://"+named("own-1")] = metadataText{owner: "b", names: []string{named("own-0")}}
	find(named("own-failed"))
	o.unlisted, o.current = true, nil
	find()

	o.unlisted, o.current = false, []string{"file:" + named("2")} // after the listing
	o.metadata[o.current[0]] = metadataText{owner: "b", snapshots: 1}
	left, err := o.find(t)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.Empty(t, left)
	o.broken = errors.New("the catalog does not answer")
	left, err = o.find(t)
	require.ErrorIs(t, err, o.broken)
	require.Empty(t, left)
}

// Unfinished uploads and files on S3 are found and removed.
//
// spec: orphan-1, orphan-7
func TestOrphanFilesOnS3(t *testing.T) {
	gateway, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gateway.Close()) })
	require.NoError(t, gateway.MakeBucket(t.Context(), "lake"))
	files, err := s3.New(t.Context(), s3.Options{
		Settings: s3.Settings{Endpoint: gateway.URL, PathStyle: true, AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret},
	})
	require.NoError(t, err)
	t.Cleanup(files.Close)
	for _, name := range []string{"t/data/own-live", "t/data/own-left", "t/data/other", "t2/own-left"} {
		require.NoError(t, files.Create(t.Context(), "s3://lake/"+name, memory.NewBufferBytes([]byte("x"))))
	}
	for _, name := range []string{"t/data/own-begun", "t/data/other-begun"} {
		require.NoError(t, gateway.Begin(t.Context(), "lake", name))
	}
	o := &oneTable{remote: files, folder: "s3://lake/t", live: []string{"s3a://lake/t/data/own-live"}}
	before := orphans.Search{Owned: search().Owned, Before: time.Now().Add(time.Hour)}
	find := func() orphans.FolderOrphans {
		found, err := before.Find(t.Context(), o, "ml.t", &budget.Reservation{})
		require.NoError(t, err)
		return found
	}
	found := find()
	require.Equal(t, []string{"s3://lake/t/data/own-left", "s3://lake/t/data/own-begun"}, locations(found.Entries))
	require.EqualValues(t, 1, found.Bytes())
	for _, e := range found.Entries {
		require.NoError(t, orphans.Remove(t.Context(), found.Files, e))
	}
	require.Empty(t, find().Entries)
	require.Len(t, storetest.Entries(t, files.List, "s3://lake/t"), 2)
	require.Len(t, storetest.Entries(t, files.List, "s3://lake/t2"), 1)
	require.Equal(t, []string{"s3://lake/t/data/other-begun"}, locations(storetest.Entries(t, files.Unfinished, "s3://lake/t")))
}
