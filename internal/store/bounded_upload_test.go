package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

// hanging is a store whose calls of one kind hang until the gate opens, below a Bounded.
type hanging struct {
	*store.Bounded
	under *storetest.Memory
	gate  chan struct{}
	calls *store.Calls
}

func newHanging(call errstore.Call) *hanging {
	h := &hanging{under: storetest.NewMemory(), gate: make(chan struct{}), calls: store.NewCallsOn(time.Minute)}
	h.Bounded = store.NewBounded(errstore.New(h.under, errstore.Rule{Call: call, Nth: 1, Action: errstore.Hang(nil, h.gate)}), h.calls)
	return h
}

// TestUploadsThatHang: each call of an upload ends at the timeout, and the upload is
// discarded when storage has answered. What is unknown is said to be.
//
// spec: storage-34, storage-39
func TestUploadsThatHang(t *testing.T) {
	for _, c := range []struct {
		call     errstore.Call
		text     string
		unknown  bool
		complete bool // once storage has answered
	}{
		{errstore.Begin, "begin", false, false},
		{errstore.Write, "write", false, false},
		{errstore.Finish, "finish", true, true},
		{errstore.Abort, "discard", false, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanging(c.call)
				began := time.Now()
				u, err := h.Begin(t.Context(), "/t/a", nil)
				p := []byte("abc")
				for _, next := range []func() error{
					func() error { return u.Write(t.Context(), memory.NewBufferBytes(p)) },
					func() error {
						if c.call == errstore.Abort {
							return u.Abort(t.Context())
						}
						return u.Finish(t.Context())
					},
				} {
					if err == nil {
						err = next()
					}
				}
				require.Equal(t, time.Minute, time.Since(began))
				require.EqualError(t, err, "storage did not "+c.text+" file /t/a within 1m0s; "+
					"check whether the disk or mount responds; if it is only slow, raise storage_timeout")
				require.Equal(t, fault.Unavailable, fault.KindOf(err))
				require.Equal(t, c.unknown, store.UnknownOutcome(err))
				require.Equal(t, map[string]int{"/": 1}, h.calls.Abandoned())
				if u != nil {
					for range 2 {
						err := u.Abort(t.Context())
						require.ErrorContains(t, err, "what was written of file /t/a is discarded as soon as storage answers")
						require.Equal(t, fault.Unavailable, fault.KindOf(err))
					}
					require.Equal(t, time.Minute, time.Since(began), "nothing waits for the call")
				}
				close(h.gate)
				synctest.Wait()
				require.Empty(t, h.calls.Abandoned())
				require.Empty(t, storetest.Entries(t, h.Unfinished, "/t"))
				require.Len(t, storetest.Entries(t, h.List, "/t"), map[bool]int{true: 1}[c.complete])
			})
		})
	}
}

// TestAbortThatDoesNotRun: an upload is discarded later if no call could be made, because
// its caller has left or because storage hangs.
//
// spec: storage-35, storage-39
func TestAbortThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanging(errstore.Read)
		u, err := h.Begin(t.Context(), "/t/a", nil)
		require.NoError(t, err)
		mine := errors.New("mine")
		ended, end := context.WithCancelCause(t.Context())
		end(mine)
		require.ErrorIs(t, u.Abort(ended), mine)
		synctest.Wait()
		require.Empty(t, storetest.Entries(t, h.Unfinished, "/t"))
		require.NoError(t, u.Abort(t.Context()))
	})
}

// TestChangesThatHang: a file that may have been created or removed is said to be unknown.
//
// spec: storage-34
func TestChangesThatHang(t *testing.T) {
	for call, do := range map[errstore.Call]func(*hanging) error{
		errstore.Create: func(h *hanging) error {
			return h.Create(context.Background(), "/t/a", memory.NewBufferBytes([]byte("abc")))
		},
		errstore.Remove: func(h *hanging) error { return h.Remove(context.Background(), "/t/a") },
		errstore.Discard: func(h *hanging) error {
			return h.Discard(context.Background(), store.FolderEntry{Location: "/t/a", Upload: "x"})
		},
	} {
		t.Run(call.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanging(call)
				err := do(h)
				require.Equal(t, fault.Unavailable, fault.KindOf(err))
				require.True(t, store.UnknownOutcome(err))
				close(h.gate)
			})
		})
	}
}

// TestListingsThatHang end at the timeout, and are closed when storage has answered.
//
// spec: storage-39
func TestListingsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanging(errstore.ListPage)
		l, err := h.List(t.Context(), "/t")
		require.NoError(t, err)
		began := time.Now()
		_, _, err = l.Next(t.Context())
		require.EqualError(t, err, "storage did not list folder /t within 1m0s; "+
			"check whether the disk or mount responds; if it is only slow, raise storage_timeout")
		require.NoError(t, l.Close())
		require.Equal(t, time.Minute, time.Since(began))
		close(h.gate)
		synctest.Wait()
		require.Empty(t, h.calls.Abandoned())
	})
}

// TestBuffersOfAbandonedCalls: a buffer is freed when the abandoned call has returned
// and its caller has released it, whatever a decorator makes of the error.
func TestBuffersOfAbandonedCalls(t *testing.T) {
	for call, do := range map[errstore.Call]func(*hanging, *memory.Buffer) error{
		errstore.Create: func(h *hanging, p *memory.Buffer) error { return h.Create(context.Background(), "/t/a", p) },
		errstore.Write: func(h *hanging, p *memory.Buffer) error {
			u, err := h.Begin(context.Background(), "/t/a", nil)
			if err != nil {
				return err
			}
			return errors.Join(u.Write(context.Background(), p), u.Abort(context.Background()))
		},
		errstore.Read: func(h *hanging, p *memory.Buffer) error {
			h.under.Put("/t/a", make([]byte, p.Len()))
			o, err := h.Open(context.Background(), "/t/a", int64(p.Len()))
			if err != nil {
				return err
			}
			return errors.Join(o.ReadAt(context.Background(), p, 0), o.Close())
		},
	} {
		t.Run(call.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHanging(call)
				p, freed := storetest.NewBuffer([]byte("abc"))
				require.Error(t, do(h, p)) // dropped, as a decorator might
				p.Release()
				synctest.Wait()
				select {
				case <-freed:
					require.Fail(t, "the buffer was freed under a call")
				default:
				}
				close(h.gate)
				<-freed
				synctest.Wait()
				require.Empty(t, h.calls.Abandoned())
			})
		})
	}
}
