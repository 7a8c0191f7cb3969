package errstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

// all makes every call once, and returns the error of the first one that fails.
func all(ctx context.Context, s *errstore.Store) error {
	if err := s.Create(ctx, "/t/created", memory.NewBufferBytes([]byte("abc"))); err != nil {
		return err
	}
	u, err := s.Begin(ctx, "/t/uploaded", nil)
	if err != nil {
		return err
	}
	other, err := s.Begin(ctx, "/t/aborted", nil)
	if err != nil {
		return err
	}
	l, err := s.List(ctx, "/t")
	if err != nil {
		return err
	}
	for _, call := range []func() error{
		func() error { return u.Write(ctx, memory.NewBufferBytes([]byte("abc"))) },
		func() error { return u.Finish(ctx) },
		func() error { return other.Abort(ctx) },
		func() error { return s.Remove(ctx, "/t/created") },
		func() error { return s.Discard(ctx, store.FolderEntry{Location: "/t/x", Upload: "x"}) },
		func() error { _, _, err := l.Next(ctx); return err },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return l.Close()
}

// TestChangesThatFail before or after the call: with a lost answer, storage has changed.
func TestChangesThatFail(t *testing.T) {
	require.NoError(t, all(t.Context(), errstore.New(storetest.NewMemory())))
	changed := map[errstore.Call]func(t *testing.T, m *storetest.Memory) bool{
		errstore.Create: func(t *testing.T, m *storetest.Memory) bool { return has(t, m, "/t/created") },
		errstore.Finish: func(t *testing.T, m *storetest.Memory) bool { return has(t, m, "/t/uploaded") },
		errstore.Remove: func(t *testing.T, m *storetest.Memory) bool { return !has(t, m, "/t/created") },
		errstore.Begin: func(t *testing.T, m *storetest.Memory) bool {
			return len(storetest.Entries(t, m.Unfinished, "/t")) == 1
		},
		errstore.Abort: func(t *testing.T, m *storetest.Memory) bool {
			return len(storetest.Entries(t, m.Unfinished, "/t")) == 0
		},
	}
	mine := errors.New("mine")
	for _, call := range append(errstore.Changes(), errstore.ListPage) {
		for name, c := range map[string]struct {
			action errstore.Action
			done   bool
		}{
			"before": {errstore.Fail(nil), false}, "before, with an error": {errstore.Fail(mine), false},
			"after": {errstore.Lose(nil), true}, "after, with an error": {errstore.Lose(mine), true},
		} {
			t.Run(call.String()+" "+name, func(t *testing.T) {
				m := storetest.NewMemory()
				s := errstore.New(m, errstore.Rule{Call: call, Action: c.action})
				err := all(t.Context(), s)
				if !errors.Is(err, mine) {
					require.Equal(t, fault.Unavailable, fault.KindOf(err))
					require.Equal(t, c.done, store.UnknownOutcome(err))
				}
				if changed[call] != nil {
					require.Equal(t, c.done, changed[call](t, m))
				}
				require.Equal(t, 1, s.Made(call))
				s.Reset()
				require.Zero(t, s.Made(call))
			})
		}
	}
}

func has(t *testing.T, m *storetest.Memory, location string) bool {
	t.Helper()
	_, err := m.Open(t.Context(), location, store.SizeUnknown)
	return err == nil
}

// onlyReads hides that a store writes.
type onlyReads struct{ store.Store }

func TestStoresThatOnlyRead(t *testing.T) {
	s := errstore.New(onlyReads{storetest.NewMemory()})
	require.EqualError(t, s.Create(t.Context(), "/a", memory.NewBufferBytes(nil)), store.ReadOnly("/a").Error())
	require.EqualError(t, s.Remove(t.Context(), "/a"), store.ReadOnly("/a").Error())
	_, err := s.Begin(t.Context(), "/a", nil)
	require.EqualError(t, err, store.ReadOnly("/a").Error())
	_, err = s.List(t.Context(), "/a")
	require.EqualError(t, err, store.Unlistable("/a").Error())
	require.EqualError(t, s.Discard(t.Context(), store.FolderEntry{Location: "/a"}), store.Unlistable("/a").Error())
}
