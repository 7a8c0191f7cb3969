package icebergcat_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
)

// appends makes a table of so many appends, each of a file, and returns their ids.
func appends(t *testing.T, w *writer, n int) (spec iceberg.PartitionSpec, ids []int64) {
	t.Helper()
	spec = w.create(t, events, idSchema()).Spec()
	for i := range n {
		ids = append(ids, w.add(t, events, "", dataFile(t, spec, location(strconv.Itoa(i)), nil, nil)))
	}
	return spec, ids
}

// since lists what was appended, by the names that appends gives.
func since(t *testing.T, c catalog.Catalog, id int64) ([]string, error) {
	t.Helper()
	table, err := c.Table(t.Context(), events, dataset.Ref{})
	require.NoError(t, err)
	files, err := c.Appended(t.Context(), table, id, []int{1}, nil)
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f.Location, "/warehouse/"), ".parquet"))
	}
	return names, err
}

// opens are the files that were opened.
type opens struct {
	store.Store
	mu    sync.Mutex
	files []string
}

func (o *opens) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files = append(o.files, location)
	return o.Store.Open(ctx, location, size)
}

// Manifests older than since are not read again, however many commits they are from.
//
// spec: since-7
func TestSinceReadsWhatIsNewer(t *testing.T) {
	w := newWriter(t)
	_, ids := appends(t, w, 6)
	o := w.options()
	opened := &opens{Store: store.Local{}}
	o.Store, o.Budget = opened, budget.New(64<<20)
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	table, err := c.Table(t.Context(), events, dataset.Ref{})
	require.NoError(t, err)
	for commits := range 4 {
		opened.files = nil
		files, err := c.Appended(t.Context(), table, ids[5-commits], []int{1}, nil)
		require.NoError(t, err)
		require.Len(t, files, commits)
		require.Zero(t, o.Budget.Used())
		slices.Sort(opened.files)
		want := 1 // metadata
		if commits > 0 {
			want += commits + 1 + commits // manifest lists, that of the pin twice, and manifests
		}
		require.Len(t, opened.files, want, "%d commits: %v", commits, opened.files)
	}
}

// A compaction of manifests moves entries and changes no file.
//
// spec: since-6
func TestSinceOverRewrittenManifests(t *testing.T) {
	w := newWriter(t)
	spec, ids := appends(t, w, 4)
	tx := w.load(t, events).NewTransaction()
	done, err := tx.RewriteManifests(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, done.RewrittenManifests)
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, "replace", string(w.load(t, events).CurrentSnapshot().Summary.Operation))
	ids = append(ids, w.add(t, events, "", dataFile(t, spec, location("4"), nil, nil)))
	for i := range ids {
		got, err := since(t, w.open(t), ids[i])
		require.NoError(t, err)
		var want []string
		for k := i + 1; k < len(ids); k++ {
			want = append(want, strconv.Itoa(k))
		}
		require.Equal(t, want, got)
	}
}

// A snapshot that expires just before its manifest list is read is expired. If the list is
// missing while the snapshot exists, it is corrupt.
//
// spec: since-4
func TestExpiryDuringSince(t *testing.T) {
	for _, expired := range []bool{true, false} {
		w := newWriter(t)
		_, ids := appends(t, w, 3)
		middle := w.load(t, events).SnapshotByID(ids[1])
		o := w.options()
		o.Store = between{store.Local{}, middle.ManifestList, new(sync.Once), func() {
			if expired {
				w.expire(t, events, ids[1])
			}
			require.NoError(t, os.Remove(local(t, middle.ManifestList)))
		}}
		reader, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		_, err = since(t, reader, ids[0])
		want := fault.Corrupt
		if expired {
			want = fault.Expired
			require.ErrorContains(t, err, "snapshot "+strconv.FormatInt(ids[1], 10)+" of table "+events+" no longer exists")
		}
		require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
		got, err := since(t, reader, ids[1])
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, got)
	}
}

// The operation that a snapshot records is trusted, and a snapshot that records none does
// not count as an append.
//
// spec: since-5
func TestSinceOverUnknownOperations(t *testing.T) {
	for was, want := range map[string]string{
		`"operation":"upsert"`:      "(upsert) did what is not known",
		`"operation":"overwrite"`:   "(overwrite) added files",
		`"operation":"delete"`:      "(delete) added files",
		`"operation":"replace"`:     "(replace) added files and replaced none",
		`"writer":"an old program"`: "(overwrite) added files",
		``:                          "(no operation) did what is not known",
	} {
		w := newWriter(t)
		_, ids := appends(t, w, 4)
		reader := w.open(t)
		got, err := since(t, reader, ids[0])
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3"}, got)

		path := local(t, w.load(t, events).MetadataLocation())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		at := strings.Index(string(text), `"snapshots":[`)
		at += strings.Index(string(text[at:]), `"snapshot-id":`+strconv.FormatInt(ids[2], 10))
		from := at + strings.Index(string(text[at:]), `"summary":{`) + len(`"summary":{`)
		to := from + strings.Index(string(text[from:]), `}`)
		require.Contains(t, string(text[from:to]), `"operation":"append"`)
		require.NoError(t, os.WriteFile(path, []byte(string(text[:from])+was+string(text[to:])), 0o600))

		_, err = since(t, reader, ids[0])
		require.Error(t, err)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, "since: snapshot "+strconv.FormatInt(ids[2], 10)+" of table "+events+" "+want)
		got, err = since(t, reader, ids[2])
		require.NoError(t, err)
		require.Equal(t, []string{"3"}, got)
	}
}

// Deletes of rows in appended files apply to them, whichever snapshot added the deletes; an
// upsert, which also adds rows, is not an append.
//
// spec: since-1, since-5
func TestSinceOverDeleteFiles(t *testing.T) {
	w := newWriter(t)
	spec := w.create(t, events, idSchema(), formatVersion("2")).Spec()
	data := func(name string) iceberg.DataFile { return dataFile(t, spec, location(name), nil, nil) }
	ids := []int64{w.add(t, events, "", data("0")), w.add(t, events, "", data("1"))}
	delta := func(add ...iceberg.DataFile) int64 {
		tx := w.load(t, events).NewTransaction()
		change := tx.NewRowDelta(nil).AddDeletes(deleteFile(t, spec, iceberg.EntryContentPosDeletes, iceberg.ParquetFile))
		require.NoError(t, change.AddRows(add...).Commit(t.Context()))
		out, err := tx.Commit(t.Context())
		require.NoError(t, err)
		return out.CurrentSnapshot().SnapshotID
	}
	ids = append(ids, delta())
	require.Equal(t, "delete", string(w.load(t, events).CurrentSnapshot().Summary.Operation))
	ids = append(ids, w.add(t, events, "", data("2")))
	c := w.open(t)
	table, err := c.Table(t.Context(), events, dataset.Ref{})
	require.NoError(t, err)
	all, err := c.Files(t.Context(), table, []int{1}, nil)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Len(t, all[1].Deletes.Positions, 1)
	for i, want := range [][]catalog.File{all[1:], all[2:], all[2:], nil} {
		files, err := c.Appended(t.Context(), table, ids[i], []int{1}, nil)
		require.NoError(t, err)
		require.Equal(t, want, files, "since %d", i)
	}

	upsert := delta(data("3"))
	_, err = since(t, c, ids[3])
	require.ErrorContains(t, err, "since: snapshot "+strconv.FormatInt(upsert, 10)+" of table "+events+" (overwrite) added files")
}
