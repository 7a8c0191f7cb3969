package orphans_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/orphans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func old() time.Time { return time.Date(2026, time.October, 5, 0, 0, 0, 0, time.UTC) }

// search returns a Search for files whose names begin with own-.
func search() orphans.Search {
	return orphans.Search{Owned: func(location string) bool { return strings.Contains(location, "/own-") }, Before: old().Add(time.Hour)}
}

// table returns a store with old files and old uploads.
func table(t *testing.T, files, uploads []string) *storetest.Memory {
	t.Helper()
	m := storetest.NewMemory()
	for _, location := range files {
		m.Put(location, []byte("x"))
		m.SetModified(location, old())
	}
	for _, location := range uploads {
		_, err := m.Begin(t.Context(), location, nil)
		require.NoError(t, err)
		m.SetModified(location, old())
	}
	return m
}

func locations(entries []store.FolderEntry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Location)
	}
	return out
}

// Orphan files are old and unneeded files and uploads of ours.
//
// spec: storage-40, storage-41
func TestOrphanFiles(t *testing.T) {
	m := table(t,
		[]string{"/t/data/own-needed", "/t/data/own-left", "/t/data/other", "/t/metadata/own-needed.avro", "/t/metadata/own-left.avro", "/t/data/own-new", "/t/data/own-ageless", "/t2/own-elsewhere"},
		[]string{"/t/data/own-begun", "/t/data/begun-by-others", "/t/data/own-running"},
	)
	m.SetModified("/t/data/own-new", old().Add(time.Hour))
	m.SetModified("/t/data/own-ageless", time.Time{})
	m.SetModified("/t/data/own-running", old().Add(2*time.Hour))
	found, err := search().List(t.Context(), m, "/t", &budget.Reservation{})
	require.NoError(t, err)
	found.Keep("file:///t/data/own-needed")
	found.Keep("file:/t//metadata/own-needed.avro")
	found.Keep("/t/data/unknown")
	left := found.Orphans()
	require.Equal(t, []string{"/t/data/own-left", "/t/metadata/own-left.avro", "/t/data/own-begun"}, locations(left))
	for range 2 {
		for _, e := range left {
			require.NoError(t, orphans.Remove(t.Context(), m, e))
		}
	}
	require.Equal(t, []string{
		"/t/data/other", "/t/data/own-ageless", "/t/data/own-needed", "/t/data/own-new", "/t/metadata/own-needed.avro",
	}, locations(storetest.Entries(t, m.List, "/t")))
	require.Equal(t, []string{"/t/data/begun-by-others", "/t/data/own-running"}, locations(storetest.Entries(t, m.Unfinished, "/t")))
	require.Len(t, storetest.Entries(t, m.List, "/t2"), 1)
}

// If one file is needed, files with the same name are kept in all folders.
//
// spec: storage-41
func TestEqualNames(t *testing.T) {
	m := table(t, []string{"/t/a/own-1", "/t/b/own-1", "/t/b/own-2"}, []string{"/t/b/own-1"})
	found, err := search().List(t.Context(), m, "/t/", &budget.Reservation{})
	require.NoError(t, err)
	found.Keep("/t/b/own-1")
	left := found.Orphans()
	require.Equal(t, []string{"/t/b/own-2", "/t/b/own-1"}, locations(left))
	require.NotEmpty(t, left[1].Upload)
}

// A failed listing returns no orphan files.
func TestListsThatFail(t *testing.T) {
	for nth := range 3 {
		s := errstore.New(table(t, []string{"/t/own-1", "/t/own-2"}, []string{"/t/own-3"}), errstore.Rule{Call: errstore.ListPage, Nth: nth + 1, Action: errstore.Fail(nil)})
		found, err := search().List(t.Context(), s, "/t", &budget.Reservation{})
		require.Nil(t, found)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "look for orphan files in /t")
	}
}

// Memory is reserved for orphan files and for the metadata files of other writers.
func TestMemoryOfOrphans(t *testing.T) {
	for _, names := range [][]string{{"/t/own-1", "/t/own-2"}, {"/t/1.metadata.json", "/t/2.metadata.json"}} {
		b := budget.New(400)
		held, err := b.Reserve("orphan files", 0)
		require.NoError(t, err)
		_, err = search().List(t.Context(), table(t, names, nil), "/t", held)
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.Positive(t, held.Held())
		held.Release()
	}
}
