package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestUploads(t *testing.T) {
	t.Parallel()
	unlinkable := func(string, string) error { return syscall.EPERM }
	calls := store.NewCalls(store.Options{Timeout: time.Minute})
	for name, make := range map[string]func() store.Store{
		"local":         func() store.Store { return store.Local{} },
		"without links": func() store.Store { return store.NewWriting(unlinkable, nil) },
		"bounded":       func() store.Store { return store.NewBounded(store.Local{}, calls) },
		"memory":        func() store.Store { return storetest.NewMemory() },
		"with faults":   func() store.Store { return errstore.New(storetest.NewMemory()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunUploads(t, func(t *testing.T) storetest.Writing {
				return storetest.Writing{Store: make(), Folder: "file://" + filepath.Join(t.TempDir(), "new", "table"), Begun: 1}
			})
		})
	}
}

// begin begins a file of three bytes.
func begin(t *testing.T, s store.Uploader, location string) store.Upload {
	t.Helper()
	u, err := s.Begin(t.Context(), location, nil)
	require.NoError(t, err)
	require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes([]byte("abc"))))
	return u
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, one := range found {
		out = append(out, one.Name())
	}
	return out
}

// TestUnfinishedNames: while a file is written, its name is one that engines ignore.
//
// spec: storage-31
func TestUnfinishedNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := begin(t, store.Local{}, dir+"/a.parquet")
	found := names(t, dir)
	require.Len(t, found, 1)
	require.Regexp(t, `^\.a\.parquet\.[A-Z2-7]{13}\.uploading$`, found[0])
	name, ok := store.FinishedName(found[0])
	require.True(t, ok)
	require.Equal(t, "a.parquet", name)
	require.NoError(t, u.Finish(t.Context()))
	require.Equal(t, []string{"a.parquet"}, names(t, dir))
	for _, other := range []string{
		"", ".", "a.parquet", ".a.parquet.uploading", ".ABCDEFGHIJKLM.uploading", "..ABCDEFGHIJKLM.uploading", ".a.ABCDEFGHIJKLm.uploading",
		".a.ABCDEFGHIJKLM.uploading2", "a.ABCDEFGHIJKLM.uploading", ".aABCDEFGHIJKLM.uploading",
	} {
		_, ok := store.FinishedName(other)
		require.False(t, ok, other)
	}
}

// TestLocalUploadsThatFail: what the disk answers decides whether the outcome is known. No
// other file is harmed, and after Abort nothing is left.
//
// spec: storage-33, storage-34
func TestLocalUploadsThatFail(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer was lost")
	whole := func(string) error { return nil }
	for name, c := range map[string]struct {
		link    func(from, to string) error
		sync    func(path string) error
		kind    fault.Kind // Internal: it succeeds
		unknown bool
		left    string // content of the file; "": none
	}{
		"the content is not durable": {sync: func(path string) error {
			if strings.HasSuffix(path, ".uploading") {
				return syscall.EIO
			}
			return nil
		}, kind: fault.Unavailable},
		"the name is not durable": {sync: func(path string) error {
			if !strings.HasSuffix(path, ".uploading") {
				return syscall.EIO
			}
			return nil
		}, kind: fault.Unavailable, unknown: true, left: "abc"},
		"the disk is full":    {link: func(_, _ string) error { return syscall.ENOSPC }, kind: fault.Unavailable},
		"linked, answer lost": {link: func(from, to string) error { return errors.Join(os.Link(from, to), lost) }, left: "abc"},
		"not linked, lost":    {link: func(_, _ string) error { return lost }, kind: fault.Unavailable},
		"linked, asked again": {link: func(from, to string) error { return errors.Join(os.Link(from, to), os.Link(from, to)) }, left: "abc"},
		"another file is there": {link: func(from, to string) error {
			return errors.Join(os.WriteFile(to, []byte("other"), 0o600), os.Link(from, to))
		}, kind: fault.Conflict, left: "other"},
		"another file, no links": {link: func(_, to string) error {
			return errors.Join(os.WriteFile(to, []byte("other"), 0o600), syscall.ENOTSUP)
		}, kind: fault.Conflict, left: "other"},
		"the upload vanished": {link: func(from, to string) error { return errors.Join(os.Remove(from), os.Link(from, to)) }, kind: fault.Unavailable},
		"vanished, no links":  {link: func(from, _ string) error { return errors.Join(os.Remove(from), syscall.EMLINK) }, kind: fault.Unavailable},
		"nothing is known": {link: func(from, to string) error {
			return errors.Join(os.Remove(from), os.WriteFile(to, []byte("other"), 0o600), lost)
		}, kind: fault.Unavailable, unknown: true, left: "other"},
		"it succeeds": {sync: whole, left: "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			location := filepath.Join(dir, "a.parquet")
			u := begin(t, store.NewWriting(c.link, c.sync), location)
			err := u.Finish(t.Context())
			if c.kind == fault.Internal {
				require.NoError(t, err)
			} else {
				require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
				require.Equal(t, location, fault.As(err).File)
			}
			require.Equal(t, c.unknown, store.UnknownOutcome(err))
			require.NoError(t, u.Abort(t.Context()))
			if c.left == "" {
				require.Empty(t, names(t, dir))
				return
			}
			require.Equal(t, []string{"a.parquet"}, names(t, dir))
			content, err := os.ReadFile(location)
			require.NoError(t, err)
			require.Equal(t, c.left, string(content))
		})
	}
}

// TestWrittenBytesReachTheDisk while a long file is written, so that Finish has little to wait for.
func TestWrittenBytesReachTheDisk(t *testing.T) {
	t.Parallel()
	syncs := 0
	s := store.NewWriting(nil, func(string) error { syncs++; return nil })
	u, err := s.Begin(t.Context(), t.TempDir()+"/a", nil)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(make([]byte, 32<<20))))
	}
	require.Equal(t, 1, syncs)
	require.NoError(t, u.Finish(t.Context()))
	require.Equal(t, 3, syncs, "the content and the name")
}

// TestUnknownOutcome is a mark that errors keep when they are wrapped.
//
// spec: storage-34
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	require.NoError(t, store.WithUnknownOutcome(nil))
	require.False(t, store.UnknownOutcome(nil))
	plain := fault.New(fault.Unavailable, "no answer")
	require.False(t, store.UnknownOutcome(plain))
	marked := store.WithUnknownOutcome(plain)
	require.Equal(t, marked, store.WithUnknownOutcome(marked))
	require.True(t, store.UnknownOutcome(errors.Join(errors.New("first"), fault.Op(marked, "write a"))))
	require.Equal(t, fault.Unavailable, fault.KindOf(marked))
	require.Equal(t, plain.Error(), marked.Error())
}
