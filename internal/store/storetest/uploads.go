package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
)

// Writing is a store under test that writes and lists.
type Writing struct {
	Store store.Store
	// Folder is the location of a folder that does not exist, without a slash at its end.
	Folder string
	// Begun is the number of bytes after which a part of an upload is in storage.
	Begun int
	// Buffered is the maximum number of bytes that the store may hold in memory for an upload.
	Buffered int64
	// Settle waits until storage has all parts of an upload that are complete so far. Tests call it
	// before they discard an upload, since storage may keep a part that arrives while its upload is
	// being discarded. If Settle is nil, each write is stored when it returns.
	Settle func(testing.TB, store.Upload)
}

func (w Writing) uploader() store.Uploader   { return w.Store.(store.Uploader) }
func (w Writing) lister() store.FolderLister { return w.Store.(store.FolderLister) }

// Held counts the bytes that are reserved for an upload. It is safe for concurrent use.
type Held struct {
	mu        sync.Mutex
	now, peak int64
}

// Reserve is a store.Reserve.
func (h *Held) Reserve(ctx context.Context, n int64) (*release.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	h.add(n)
	return release.New(func() { h.add(-n) }), nil
}

func (h *Held) add(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.peak = max(h.peak, h.now)
}

// Bytes returns the number of bytes that are reserved now, and the maximum of this number so far.
func (h *Held) Bytes() (now, peak int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, h.peak
}

// RunUploads checks that a store follows the contracts of store.Uploader and
// store.FolderLister.
func RunUploads(t *testing.T, open func(t *testing.T) Writing) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Writing){
		"a file has what was written":                    written,
		"an existing file is not replaced":               notReplaced,
		"one of two uploads of a file wins":              oneWins,
		"an aborted upload leaves nothing":               aborted,
		"an upload that has ended accepts no more calls": afterEnd,
		"a context ends a call":                          endedCalls,
		"a folder lists the files below it":              listed,
		"an unfinished upload can be found":              unfinished,
		"a folder that does not exist is empty":          func(t *testing.T, w Writing) { require.Empty(t, Entries(t, w.lister().List, w.Folder)) },
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Entries returns all entries of a folder, by location.
func Entries(t *testing.T, list func(context.Context, string) (store.FolderListing, error), folder string) []store.FolderEntry {
	t.Helper()
	listing, err := list(t.Context(), folder)
	require.NoError(t, err)
	var out []store.FolderEntry
	require.NoError(t, store.Each(t.Context(), listing, func(e store.FolderEntry) error {
		out = append(out, e)
		return nil
	}))
	slices.SortFunc(out, func(a, b store.FolderEntry) int { return strings.Compare(a.Location, b.Location) })
	return out
}

// Content returns the content of a file.
func Content(t *testing.T, s store.Store, location string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), location, store.SizeUnknown)
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	out := make([]byte, o.Size())
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(out), 0))
	return out
}

// requireAbsent checks that there is no file.
func requireAbsent(t *testing.T, s store.Store, location string) {
	t.Helper()
	_, err := s.Open(t.Context(), location, store.SizeUnknown)
	require.ErrorContains(t, err, "missing")
}

// begin begins a file and writes n bytes of a sample.
func (w Writing) begin(t *testing.T, location string, n int) store.Upload {
	t.Helper()
	u, err := w.uploader().Begin(t.Context(), location, nil)
	require.NoError(t, err)
	require.Equal(t, location, u.Location())
	require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(sample(n))))
	return u
}

// write writes a file of n bytes.
func (w Writing) write(t *testing.T, location string, n int) {
	t.Helper()
	require.NoError(t, w.begin(t, location, n).Finish(t.Context()))
}

// spec: storage-30, storage-31, storage-32
func written(t *testing.T, w Writing) {
	for _, size := range []int{0, 1, 10_000, w.Begun, 2*w.Begun + 12_345} {
		content, held := sample(size), &Held{}
		location := w.Folder + "/data/day=2026-10-05/name=a b%25+?#/file " + strings.Repeat("x", size%7) + ".parquet"
		u, err := w.uploader().Begin(t.Context(), location, held.Reserve)
		require.NoError(t, err)
		scratch := make([]byte, 70_001)
		for rest := content; len(rest) > 0; {
			n := copy(scratch[:min(len(rest), 1+len(rest)*7%len(scratch))], rest)
			require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(scratch[:n])))
			rest = rest[n:]
			clear(scratch)
		}
		require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(nil)))
		requireAbsent(t, w.Store, location)
		require.Empty(t, Entries(t, w.lister().List, w.Folder))
		require.NoError(t, u.Finish(t.Context()))
		now, peak := held.Bytes()
		require.Zero(t, now)
		require.LessOrEqual(t, peak, w.Buffered)
		require.True(t, bytes.Equal(content, Content(t, w.Store, location)), "%d bytes", size)
		require.NoError(t, u.Abort(t.Context()))
		require.Empty(t, Entries(t, w.lister().Unfinished, w.Folder))
		require.NoError(t, w.Store.(store.Writer).Remove(t.Context(), location))
	}
}

// spec: storage-33
func notReplaced(t *testing.T, w Writing) {
	location := w.Folder + "/there.parquet"
	w.write(t, location, 10)
	for _, size := range []int{5, 2*w.Begun + 1} {
		u := w.begin(t, location, size)
		err := u.Finish(t.Context())
		requireKind(t, err, fault.Conflict, location)
		require.False(t, store.UnknownOutcome(err))
		require.NoError(t, u.Abort(t.Context()))
		require.Equal(t, sample(10), Content(t, w.Store, location))
		require.Empty(t, Entries(t, w.lister().Unfinished, w.Folder))
	}
}

func oneWins(t *testing.T, w Writing) {
	location := w.Folder + "/raced.parquet"
	one, other := w.begin(t, location, w.Begun+1), w.begin(t, location, w.Begun+2)
	require.NoError(t, one.Finish(t.Context()))
	requireKind(t, other.Finish(t.Context()), fault.Conflict, location)
	require.NoError(t, other.Abort(t.Context()))
	require.Len(t, Content(t, w.Store, location), w.Begun+1)
	require.Empty(t, Entries(t, w.lister().Unfinished, w.Folder))
}

// spec: storage-35
func aborted(t *testing.T, w Writing) {
	for _, size := range []int{0, 1, 2*w.Begun + 1} {
		held, location := &Held{}, w.Folder+"/aborted.parquet"
		u, err := w.uploader().Begin(t.Context(), location, held.Reserve)
		require.NoError(t, err)
		require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(sample(size))))
		for range 2 {
			require.NoError(t, u.Abort(t.Context()))
			now, _ := held.Bytes()
			require.Zero(t, now)
			requireAbsent(t, w.Store, location)
			require.Empty(t, Entries(t, w.lister().Unfinished, w.Folder))
		}
	}
}

func afterEnd(t *testing.T, w Writing) {
	location := w.Folder + "/ended.parquet"
	u := w.begin(t, location, 10)
	require.NoError(t, u.Finish(t.Context()))
	for range 2 {
		require.Equal(t, fault.Internal, fault.KindOf(u.Write(t.Context(), memory.NewBufferBytes(sample(1)))))
		require.Equal(t, fault.Internal, fault.KindOf(u.Finish(t.Context())))
		require.NoError(t, u.Abort(t.Context()))
	}
	require.Equal(t, sample(10), Content(t, w.Store, location))
	u = w.begin(t, w.Folder+"/aborted too.parquet", 10)
	require.NoError(t, u.Abort(t.Context()))
	require.Equal(t, fault.Internal, fault.KindOf(u.Write(t.Context(), memory.NewBufferBytes(sample(1)))))
	require.Equal(t, fault.Internal, fault.KindOf(u.Finish(t.Context())))
}

func endedCalls(t *testing.T, w Writing) {
	mine := errors.New("mine")
	ended, end := context.WithCancelCause(t.Context())
	end(mine)
	_, err := w.uploader().Begin(ended, w.Folder+"/a", nil)
	require.ErrorIs(t, err, mine)
	for _, call := range []func(store.Upload) error{
		func(u store.Upload) error { return u.Write(ended, memory.NewBufferBytes(sample(10))) },
		func(u store.Upload) error { return u.Finish(ended) },
	} {
		u := w.begin(t, w.Folder+"/a", w.Begun+1)
		require.ErrorIs(t, call(u), mine)
		require.Error(t, u.Write(t.Context(), memory.NewBufferBytes(sample(10))), "a call has failed")
		require.NoError(t, u.Abort(t.Context()))
		requireAbsent(t, w.Store, w.Folder+"/a")
	}
	_, err = w.lister().List(ended, w.Folder)
	require.ErrorIs(t, err, mine)
	_, err = w.lister().Unfinished(ended, w.Folder)
	require.ErrorIs(t, err, mine)
	require.ErrorIs(t, w.lister().Discard(ended, store.FolderEntry{Location: w.Folder + "/a", Upload: "x"}), mine)
	w.write(t, w.Folder+"/b", 10)
	l, err := w.lister().List(t.Context(), w.Folder)
	require.NoError(t, err)
	_, _, err = l.Next(ended)
	require.ErrorIs(t, err, mine)
	require.NoError(t, l.Close())
}

// spec: storage-36
func listed(t *testing.T, w Writing) {
	want := []string{"/a.parquet", "/data/b=1/c%2F +?#ü.parquet", "/data/b=1/d", "/data/e", "/data2/f"}
	for i, name := range want {
		w.write(t, w.Folder+name, i)
	}
	unfinished := w.begin(t, w.Folder+"/data/g", w.Begun+1)
	defer func() { require.NoError(t, unfinished.Abort(t.Context())) }()
	for folder, names := range map[string][]string{
		"": want, "/": want, "/data": want[1:4], "/data/": want[1:4], "/data/b=1": want[1:3], "/da": nil, "/data/e": nil,
	} {
		var got []string
		for _, e := range Entries(t, w.lister().List, w.Folder+folder) {
			got = append(got, strings.TrimPrefix(e.Location, w.Folder))
			require.Empty(t, e.Upload)
			require.Equal(t, int64(slices.Index(want, got[len(got)-1])), e.Size)
			require.Len(t, Content(t, w.Store, e.Location), int(e.Size), "a listed location can be opened")
		}
		require.Equal(t, names, got, folder)
	}
	stop := errors.New("stop")
	listing, err := w.lister().List(t.Context(), w.Folder)
	require.NoError(t, err)
	require.ErrorIs(t, store.Each(t.Context(), listing, func(store.FolderEntry) error { return stop }), stop)
}

// spec: storage-37
func unfinished(t *testing.T, w Writing) {
	location := w.Folder + "/data/left+behind %2F.parquet"
	w.write(t, w.Folder+"/data/complete.parquet", 10)
	u, other := w.begin(t, location, w.Begun+1), w.begin(t, w.Folder+"2/other.parquet", w.Begun+1)
	if w.Settle != nil {
		w.Settle(t, u)
	}
	found := Entries(t, w.lister().Unfinished, w.Folder)
	require.Len(t, found, 1)
	require.Equal(t, location, found[0].Location)
	require.NotEmpty(t, found[0].Upload)
	for range 2 {
		require.NoError(t, w.lister().Discard(t.Context(), found[0]))
		require.Empty(t, Entries(t, w.lister().Unfinished, w.Folder))
	}
	err := u.Finish(t.Context())
	require.Error(t, err)
	require.False(t, store.UnknownOutcome(err), "%v", err)
	require.NoError(t, u.Abort(t.Context()))
	requireAbsent(t, w.Store, location)
	require.NoError(t, other.Finish(t.Context()))
	files := Entries(t, w.lister().List, w.Folder)
	require.Len(t, files, 1)
	require.Equal(t, fault.Internal, fault.KindOf(w.lister().Discard(t.Context(), files[0])), "a file is not an upload")
	require.Equal(t, sample(10), Content(t, w.Store, files[0].Location))
}
