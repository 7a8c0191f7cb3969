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

func files(locations ...string) *storetest.Memory {
	m := storetest.NewMemory()
	for _, location := range locations {
		m.Put(location, []byte("0123456789"))
	}
	return m
}

func open(t *testing.T, s store.Store, location string) store.Object {
	t.Helper()
	o, err := s.Open(t.Context(), location, store.SizeUnknown)
	require.NoError(t, err)
	return o
}

func read(t *testing.T, o store.Object, off int64, n int) (string, error) {
	t.Helper()
	p := make([]byte, n)
	err := o.ReadAt(t.Context(), memory.NewBufferBytes(p), off)
	return string(p), err
}

func TestConformsWithoutRules(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Fixture {
		m := storetest.NewMemory()
		return storetest.Fixture{
			Store:  errstore.New(m),
			Absent: func(_ *testing.T, name string) string { return name },
			Put: func(_ *testing.T, name string, content []byte) string {
				m.Put(name, content)
				return name
			},
		}
	})
}

func TestCounts(t *testing.T) {
	s := errstore.New(files("/a", "/b"))
	a, b := open(t, s, "/a"), open(t, s, "/b")
	_, err := read(t, a, 2, 3)
	require.NoError(t, err)
	_, err = read(t, b, 0, 10)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.Equal(t, errstore.Counts{Opens: 2, Open: 1, Reads: 2, Bytes: 13}, s.Counts())
	require.Equal(t, []errstore.Request{{Location: "/a", Offset: 2, Bytes: 3}, {Location: "/b", Bytes: 10}}, s.Requests())
	s.Reset()
	require.Equal(t, errstore.Counts{Open: 1}, s.Counts())
	require.Empty(t, s.Requests())
	require.NoError(t, b.Close())
	require.Zero(t, s.Counts().Open)
}

func TestFailNthRead(t *testing.T) {
	mine := errors.New("mine")
	s := errstore.New(files("/a", "/b"),
		errstore.Rule{Location: "/b", Nth: 2, Action: errstore.Fail(nil)},
		errstore.Rule{Location: "/b", Nth: 3, Action: errstore.Fail(mine)})
	a, b := open(t, s, "/a"), open(t, s, "/b")
	for range 3 {
		_, err := read(t, a, 0, 1)
		require.NoError(t, err)
	}
	_, err := read(t, b, 0, 1)
	require.NoError(t, err)
	_, err = read(t, b, 0, 1)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "/b")
	// The first rule decided the second read, so the second rule has not seen it.
	_, err = read(t, b, 0, 1)
	require.NoError(t, err)
	_, err = read(t, b, 0, 1)
	require.ErrorIs(t, err, mine)
}

func TestFailOpen(t *testing.T) {
	s := errstore.New(files("/a"), errstore.Rule{Call: errstore.Open, Nth: 1, Action: errstore.Fail(nil)})
	_, err := s.Open(t.Context(), "/a", 10)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Zero(t, s.Counts().Open)
	require.NoError(t, open(t, s, "/a").Close())
}

func TestHold(t *testing.T) {
	gate := make(chan struct{})
	s := errstore.New(files("/a"), errstore.Rule{Action: errstore.Hold(gate)})
	o := open(t, s, "/a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, o.ReadAt(ctx, memory.NewBufferBytes(make([]byte, 1)), 0), context.Canceled)
	done := make(chan error, 1)
	go func() { done <- o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0) }()
	close(gate)
	require.NoError(t, <-done)
}

func TestFlipAndTruncate(t *testing.T) {
	s := errstore.New(files("/a"), errstore.Rule{Action: errstore.Flip(5, 1)})
	o := open(t, s, "/a")
	got, err := read(t, o, 3, 4)
	require.NoError(t, err)
	require.Equal(t, "3446", got)
	got, err = read(t, o, 6, 4)
	require.NoError(t, err)
	require.Equal(t, "6789", got)

	s.Set(errstore.Rule{Nth: 1, Action: errstore.Truncate(5)})
	_, err = read(t, o, 3, 4)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	_, err = read(t, o, 3, 4)
	require.NoError(t, err)

	s.Set(errstore.Rule{Call: errstore.Open, Action: errstore.Truncate(5)})
	o, err = s.Open(t.Context(), "/a", 10)
	require.NoError(t, err)
	require.Equal(t, int64(5), o.Size())
	_, err = read(t, o, 3, 4)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	_, err = read(t, o, 3, 2)
	require.NoError(t, err)
}
