package store_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestConfinedConforms(t *testing.T) {
	t.Parallel()
	storetest.RunUploads(t, func(t *testing.T) storetest.Writing {
		folder := "file://" + t.TempDir() + "/table"
		prefixes, err := store.Kinds(nil).Prefixes(folder, folder+"2")
		require.NoError(t, err)
		return storetest.Writing{Store: store.Confine(store.Local{}, prefixes), Folder: folder, Begun: 1}
	})
}

// TestConfinedRefuses every write and list outside of the prefixes, before storage is called.
//
// spec: storage-38
func TestConfinedRefuses(t *testing.T) {
	t.Parallel()
	prefixes, err := store.NewKinds(s3.Kind(store.Environment{})).Prefixes("s3://b/wh")
	require.NoError(t, err)
	under := errstore.New(storetest.NewMemory())
	s := store.Confine(under, prefixes)
	calls := func(location string) map[string]error {
		_, begun := s.Begin(t.Context(), location, nil)
		_, listed := s.List(t.Context(), location)
		_, unfinished := s.Unfinished(t.Context(), location)
		return map[string]error{
			"create": s.Create(t.Context(), location, memory.NewBufferBytes(nil)), "remove": s.Remove(t.Context(), location), "begin": begun,
			"list": listed, "unfinished": unfinished, "discard": s.Discard(t.Context(), store.FolderEntry{Location: location, Upload: "x"}),
		}
	}
	for _, location := range []string{"s3://b/wh2/x", "s3://b/x", "s3://c/wh/x", "/b/wh/x", "s3://b/wh/../x", "s3://b/wh/%2e%2e/x"} {
		for name, err := range calls(location) {
			require.Equal(t, fault.Forbidden, fault.KindOf(err), "%s %s", name, location)
			require.ErrorContains(t, err, location+" is not under s3://b/wh/, where this catalog may write")
			require.ErrorContains(t, err, "allowed_prefixes")
			require.Equal(t, location, fault.As(err).File)
		}
	}
	require.Zero(t, under.Made(errstore.Create)+under.Made(errstore.Remove)+under.Made(errstore.Begin)+under.Made(errstore.Discard))
	for name, err := range calls("s3a://b/wh/t/x") {
		require.NoError(t, err, name)
	}
	_, err = s.List(t.Context(), "s3://b/wh")
	require.NoError(t, err, "a prefix may be listed")
	_, err = s.List(t.Context(), "s3://b/w")
	require.Error(t, err)
}
