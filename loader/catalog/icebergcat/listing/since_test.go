package listing_test

import (
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
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// Manifests older than since are not read again, however many commits they are from.
//
// spec: since-7
func TestSinceReadsWhatIsNewer(t *testing.T) {
	w := icebergtest.NewWriter(t)
	_, ids := icebergtest.Appends(t, w, 6)
	o := w.Options()
	opened := &icebergtest.Opens{Store: store.Local{}}
	o.Store, o.Budget = opened, budget.New(64<<20)
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	for commits := range 4 {
		opened.Files = nil
		files, err := c.Appended(t.Context(), table, ids[5-commits], []int{1}, nil)
		require.NoError(t, err)
		require.Len(t, files, commits)
		require.Zero(t, o.Budget.Used())
		slices.Sort(opened.Files)
		want := 1 // metadata
		if commits > 0 {
			want += commits + 1 + commits // manifest lists, that of the pin twice, and manifests
		}
		require.Len(t, opened.Files, want, "%d commits: %v", commits, opened.Files)
	}
}

// A compaction of manifests moves entries and changes no file.
//
// spec: since-6
func TestSinceOverRewrittenManifests(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec, ids := icebergtest.Appends(t, w, 4)
	tx := w.Load(t, icebergtest.Events).NewTransaction()
	done, err := tx.RewriteManifests(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, done.RewrittenManifests)
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, "replace", string(w.Load(t, icebergtest.Events).CurrentSnapshot().Summary.Operation))
	ids = append(ids, w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("4"), nil, nil)))
	for i := range ids {
		got, err := icebergtest.Since(t, w.Open(t), ids[i])
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
		w := icebergtest.NewWriter(t)
		_, ids := icebergtest.Appends(t, w, 3)
		middle := w.Load(t, icebergtest.Events).SnapshotByID(ids[1])
		o := w.Options()
		o.Store = between{store.Local{}, middle.ManifestList, new(sync.Once), func() {
			if expired {
				w.Expire(t, icebergtest.Events, ids[1])
			}
			require.NoError(t, os.Remove(icebergtest.Local(t, middle.ManifestList)))
		}}
		reader, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		_, err = icebergtest.Since(t, reader, ids[0])
		want := fault.Corrupt
		if expired {
			want = fault.Expired
			require.ErrorContains(t, err, "snapshot "+strconv.FormatInt(ids[1], 10)+" of table "+icebergtest.Events+" no longer exists")
		}
		require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
		got, err := icebergtest.Since(t, reader, ids[1])
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
		w := icebergtest.NewWriter(t)
		_, ids := icebergtest.Appends(t, w, 4)
		reader := w.Open(t)
		got, err := icebergtest.Since(t, reader, ids[0])
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3"}, got)

		path := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		at := strings.Index(string(text), `"snapshots":[`)
		at += strings.Index(string(text[at:]), `"snapshot-id":`+strconv.FormatInt(ids[2], 10))
		from := at + strings.Index(string(text[at:]), `"summary":{`) + len(`"summary":{`)
		to := from + strings.Index(string(text[from:]), `}`)
		require.Contains(t, string(text[from:to]), `"operation":"append"`)
		require.NoError(t, os.WriteFile(path, []byte(string(text[:from])+was+string(text[to:])), 0o600))

		_, err = icebergtest.Since(t, reader, ids[0])
		require.Error(t, err)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, "since: snapshot "+strconv.FormatInt(ids[2], 10)+" of table "+icebergtest.Events+" "+want)
		got, err = icebergtest.Since(t, reader, ids[2])
		require.NoError(t, err)
		require.Equal(t, []string{"3"}, got)
	}
}

// Deletes of rows in appended files apply to them, whichever snapshot added the deletes; an
// upsert, which also adds rows, is not an append.
//
// spec: since-1, since-5
func TestSinceOverDeleteFiles(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("2")).Spec()
	data := func(name string) iceberg.DataFile {
		return icebergtest.DataFile(t, spec, icebergtest.Location(name), nil, nil)
	}
	ids := []int64{w.Add(t, icebergtest.Events, "", data("0")), w.Add(t, icebergtest.Events, "", data("1"))}
	delta := func(add ...iceberg.DataFile) int64 {
		tx := w.Load(t, icebergtest.Events).NewTransaction()
		change := tx.NewRowDelta(nil).AddDeletes(icebergtest.DeleteFile(t, spec, iceberg.EntryContentPosDeletes, iceberg.ParquetFile))
		require.NoError(t, change.AddRows(add...).Commit(t.Context()))
		out, err := tx.Commit(t.Context())
		require.NoError(t, err)
		return out.CurrentSnapshot().SnapshotID
	}
	ids = append(ids, delta())
	require.Equal(t, "delete", string(w.Load(t, icebergtest.Events).CurrentSnapshot().Summary.Operation))
	ids = append(ids, w.Add(t, icebergtest.Events, "", data("2")))
	c := w.Open(t)
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
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
	_, err = icebergtest.Since(t, c, ids[3])
	require.ErrorContains(t, err, "since: snapshot "+strconv.FormatInt(upsert, 10)+" of table "+icebergtest.Events+" (overwrite) added files")
}
