package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sticky is calls of the operating system of which the next one of a kind hangs.
type sticky struct{ open, stat, read atomic.Pointer[gate] }

type gate struct{ asked, open chan struct{} }

// hang makes the next call wait.
func hang(at *atomic.Pointer[gate]) func() (<-chan struct{}, func()) {
	return func() (<-chan struct{}, func()) {
		g := &gate{asked: make(chan struct{}), open: make(chan struct{})}
		at.Store(g)
		return g.asked, func() { close(g.open) }
	}
}

func pass(at *atomic.Pointer[gate]) {
	if g := at.Swap(nil); g != nil {
		close(g.asked)
		<-g.open
	}
}

func (s *sticky) local() store.Local {
	return store.NewLocal(
		func(path string) (fs.FileInfo, error) { pass(&s.stat); return os.Stat(path) },
		func(path string) (store.File, error) {
			pass(&s.open)
			f, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			return stickyFile{f, s}, nil
		})
}

type stickyFile struct {
	*os.File
	system *sticky
}

func (f stickyFile) ReadAt(p []byte, off int64) (int, error) {
	pass(&f.system.read)
	return f.File.ReadAt(p, off)
}

// TestBoundedConforms also where opens, stats and reads hang below store.Local.
func TestBoundedConforms(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"with a timeout": time.Hour, "without": 0} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				dir, system := t.TempDir(), &sticky{}
				locate := func(_ *testing.T, name string) string { return filepath.Join(dir, name) }
				return storetest.Fixture{
					Store:  store.NewBounded(system.local(), store.NewCalls(store.Options{Timeout: timeout, Clock: time.Now})),
					Absent: locate,
					Put: func(t *testing.T, name string, content []byte) string {
						require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
						return locate(t, name)
					},
					Hang: map[string]func() (<-chan struct{}, func()){
						"open": hang(&system.open), "stat": hang(&system.stat), "read": hang(&system.read),
					},
				}
			})
		})
	}
}

// files is a store of files of ten bytes, whose calls hang until the gate opens.
func files(gate chan struct{}, call errstore.Call, hanging string, locations ...string) *errstore.Store {
	m := storetest.NewMemory()
	for _, location := range locations {
		m.Put(location, []byte("0123456789"))
	}
	return errstore.New(m, errstore.Rule{Location: hanging, Call: call, Action: errstore.Hang(nil, gate)})
}

// TestDeadline: a call that hangs fails at the timeout, as unavailable, and
// names file and setting.
func TestDeadline(t *testing.T) {
	for call, name := range map[errstore.Call]string{errstore.Open: "open", errstore.Read: "read"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				calls := store.NewCallsOn(time.Minute)
				s := store.NewBounded(files(gate, call, "", "/a"), calls)
				began := time.Now()
				o, err := s.Open(t.Context(), "/a", 10)
				if call == errstore.Read {
					require.NoError(t, err)
					err = o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0)
					require.NoError(t, o.Close())
				}
				require.Equal(t, time.Minute, time.Since(began))
				require.EqualError(t, err, "storage did not "+name+" file /a within 1m0s; "+
					"check whether the disk or mount responds; if it is only slow, raise storage_timeout")
				require.Equal(t, fault.Unavailable, fault.KindOf(err))
				require.Equal(t, "/a", fault.As(err).File)
				require.Equal(t, map[string]int{"/": 1}, calls.Abandoned())
				close(gate)
				synctest.Wait()
				require.Empty(t, calls.Abandoned())
			})
		})
	}
}

// TestFileThatHangs: a file that the timeout has found out about is not asked
// again before it answers, and no other file suffers.
func TestFileThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		under := files(gate, errstore.Open, "/a", "/a", "/b")
		s := store.NewBounded(under, store.NewCallsOn(time.Minute))
		open := func(location string) error {
			o, err := s.Open(t.Context(), location, 10)
			if err == nil {
				err = o.Close()
			}
			return err
		}
		require.ErrorContains(t, open("/a"), "storage did not open file /a within 1m0s")
		began := time.Now()
		for range 2 * store.MaxCalls {
			err := open("/a")
			require.ErrorContains(t, err, "storage did not answer for file /a within 1m0s; further calls fail until it does")
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.Equal(t, "/a", fault.As(err).File)
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, under.Counts().Opens)
		require.NoError(t, open("/b"))
		close(gate)
		synctest.Wait()
		require.NoError(t, open("/a"))
	})
}

// TestFullMount: on one mount no more calls run than it has places, however many were left
// behind; other mounts keep working, and so does this one once its calls return.
func TestFullMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		under := files(gate, errstore.Open, "/dead/", "/dead/a", "/well/a")
		calls := store.NewCallsOn(time.Minute, "/", "/dead")
		s := store.NewBounded(under, calls)
		open := func(location string) error {
			o, err := s.Open(t.Context(), location, 10)
			if err == nil {
				err = o.Close()
			}
			return err
		}
		for range store.MaxCalls {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				synctest.Wait()
				cancel()
			}()
			_, err := s.Open(ctx, "/dead/a", 10)
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, map[string]int{"/dead": store.MaxCalls}, calls.Abandoned())

		began := time.Now()
		for _, waited := range []time.Duration{time.Minute, 0, 0} {
			err := open("/dead/a")
			require.Equal(t, waited, time.Since(began))
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.ErrorContains(t, err, fmt.Sprintf("storage at /dead does not answer: %d calls have run for more than 1m0s", store.MaxCalls))
			require.Equal(t, "/dead/a", fault.As(err).File)
			began = time.Now()
		}
		require.Equal(t, store.MaxCalls, under.Counts().Opens, "calls beyond the bound")
		require.NoError(t, open("/well/a"))
		require.Zero(t, time.Since(began))

		close(gate)
		synctest.Wait()
		require.Empty(t, calls.Abandoned())
		require.NoError(t, open("/dead/a"))
	})
}

// TestFullMountWaits: where calls of a mount with no place left still return,
// others wait for them, also longer than the timeout, or until their context ends.
func TestFullMountWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := store.NewCallsOn(time.Minute)
		call := func(ctx context.Context, takes time.Duration) error {
			_, err := store.Call(ctx, calls, "read", "/a", func(context.Context) (int, error) {
				time.Sleep(takes)
				return 0, nil
			})
			return err
		}
		returned := make(chan error, 2*store.MaxCalls)
		for i := range store.MaxCalls {
			go func() { returned <- call(t.Context(), time.Duration(i+1)*50*time.Second/store.MaxCalls) }()
		}
		synctest.Wait()
		for range store.MaxCalls {
			go func() { returned <- call(t.Context(), 59900*time.Millisecond) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, call(ctx, 0), context.DeadlineExceeded, "its context ends while it waits")
		began := time.Now()
		require.NoError(t, call(t.Context(), 0))
		require.Greater(t, time.Since(began), time.Minute)
		for range cap(returned) {
			require.NoError(t, <-returned)
		}
	})
}

// closing is an object, or a value, that knows when it was closed.
type closing struct {
	store.Object
	closed chan struct{}
}

func (c closing) Close() error { close(c.closed); return nil }

// TestLateValueIsClosed: an object that opens after its caller has left is closed.
func TestLateValueIsClosed(t *testing.T) {
	calls := store.NewCallsOn(0)
	ctx, cancel := context.WithCancel(t.Context())
	gate, closed := make(chan struct{}), make(chan struct{})
	_, err := store.Call(ctx, calls, "open", "/a", func(given context.Context) (closing, error) {
		cancel()
		<-given.Done()
		<-gate
		return closing{closed: closed}, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	close(gate)
	<-closed
}

// TestCloseDoesNotWaitForReads: an object is closed after its last read, and Close does not
// wait for that.
func TestCloseDoesNotWaitForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, closed := make(chan struct{}), make(chan struct{})
		under := files(gate, errstore.Read, "", "/a")
		s := store.NewBounded(opens(func(ctx context.Context) (store.Object, error) {
			o, err := under.Open(ctx, "/a", 10)
			return closing{o, closed}, err
		}), store.NewCallsOn(time.Minute))
		o, err := s.Open(t.Context(), "/a", 10)
		require.NoError(t, err)
		p := make([]byte, 10)
		err = o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.NoError(t, o.Close())
		synctest.Wait()
		select {
		case <-closed:
			require.Fail(t, "the object was closed under a read")
		default:
		}
		require.Equal(t, make([]byte, 10), p)
		close(gate)
		<-closed
		require.Equal(t, "0123456789", string(p), "the abandoned read still writes")
	})
}

type opens func(ctx context.Context) (store.Object, error)

func (o opens) Open(ctx context.Context, _ string, _ int64) (store.Object, error) { return o(ctx) }

// TestPending: a Pending runs functions after the abandoned call, and at once after it
// has returned. A call that returned, or was not made, has none.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		count := func() { ran++ }
		calls, gate := store.NewCallsOn(time.Minute), make(chan struct{})
		call := func(do func() error) (*store.Pending, error) {
			_, pending, err := store.CallPending(t.Context(), calls, "read", "/a", func(context.Context) (int, error) { return 0, do() })
			return pending, err
		}
		pending, err := call(func() error { return errors.New("any") })
		require.Error(t, err)
		require.Nil(t, pending)
		pending.WhenReturned(count)
		require.Equal(t, 1, ran)

		pending, err = call(func() error { <-gate; return nil })
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		pending.WhenReturned(count)
		pending.WhenReturned(count)
		refused, err := call(func() error { return nil })
		require.ErrorContains(t, err, "further calls fail until it does")
		require.Nil(t, refused)
		synctest.Wait()
		require.Equal(t, 1, ran)
		close(gate)
		synctest.Wait()
		require.Equal(t, 3, ran)
		pending.WhenReturned(count)
		require.Equal(t, 4, ran)
	})
}

// TestPanickingCall fails alone, with its stack for the log.
func TestPanickingCall(t *testing.T) {
	_, err := store.Call(t.Context(), store.NewCallsOn(time.Hour), "read", "/a", func(context.Context) (int, error) { panic("at the disk") })
	require.Equal(t, fault.Internal, fault.KindOf(err))
	require.ErrorContains(t, err, "read file /a panicked: at the disk")
	var crash fault.Crash
	require.ErrorAs(t, err, &crash)
	require.Contains(t, string(crash.Stack), "TestPanickingCall")
}

// TestWithoutCalls runs a call as it is, and so do Calls whose caller waits for
// as long as it takes: it gets its caller's own context.
func TestWithoutCalls(t *testing.T) {
	for _, calls := range []*store.Calls{nil, store.NewCallsOn(0)} {
		ctx := context.WithoutCancel(t.Context())
		got, err := store.Call(ctx, calls, "read", "/a", func(given context.Context) (int, error) {
			require.Equal(t, ctx, given)
			return 7, nil
		})
		require.NoError(t, err)
		require.Equal(t, 7, got)
	}
}
