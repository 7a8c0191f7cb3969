package flight

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// closing is a connection that records whether it was closed.
type closing struct {
	net.Conn
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return nil
}

// traveller is a stream of a test.
type traveller struct {
	*streamInflight
	conn *closing
	why  error // the cause with which it was ended
}

func travel(tr *inflightBatches) *traveller {
	conn := &closing{closed: make(chan struct{})}
	t := &traveller{conn: conn}
	t.streamInflight = tr.enter(&connection{conn: conn}, func(why error) { t.why = why })
	return t
}

// Batches of the loader are counted: newBatchLease finds this out at run time.
var _ charged = (*batch.Charged)(nil)

// leaseOf returns a lease on a batch that takes a number of bytes of a budget.
func leaseOf(t *testing.T, p *streamInflight, bytes int64) *batchLease {
	t.Helper()
	held, err := (*budget.Budget)(nil).Reserve("a batch", bytes)
	require.NoError(t, err)
	b := batch.NewCharged(numbers(1), held)
	defer b.Release()
	return newBatchLease(b, p, nil)
}

// hand hands a batch to gRPC.
func (p *traveller) hand(t *testing.T, bytes int64) *batchLease {
	t.Helper()
	l := leaseOf(t, p.streamInflight, bytes)
	require.NoError(t, p.admit(t.Context(), l))
	return l
}

// spec: wire-10
func TestInflightBatches(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, tr *inflightBatches){
		"a batch over the limit is sent alone": func(t *testing.T, tr *inflightBatches) {
			one := travel(tr)
			l := one.hand(t, 1000)
			require.Equal(t, int64(1000), tr.total())
			l.Release()
			l.end() // gRPC may be late
			require.Zero(t, tr.total())
			one.Release()
		},
		"a batch waits for streams that move": func(t *testing.T, tr *inflightBatches) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			done := make(chan error, 1)
			l := leaseOf(t, other.streamInflight, 60)
			go func() { done <- other.admit(t.Context(), l) }()
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				synctest.Wait()
				one.move()
				require.Empty(t, done)
			}
			first.Release()
			require.NoError(t, <-done)
			require.NoError(t, one.why)
			l.Release()
			one.Release()
			other.Release()
		},
		"the slowest loses its connection": func(t *testing.T, tr *inflightBatches) {
			slow, slower, reader := travel(tr), travel(tr), travel(tr)
			lost := slower.hand(t, 50)
			time.Sleep(100 * time.Millisecond)
			kept := slow.hand(t, 40)
			done := make(chan error, 1)
			l := leaseOf(t, reader.streamInflight, 30)
			go func() { done <- reader.admit(t.Context(), l) }()
			<-slower.conn.closed
			require.Equal(t, fault.Unavailable, fault.KindOf(slower.why))
			require.ErrorContains(t, slower.why, "the client took nothing for 1s")
			require.NotEmpty(t, fault.As(slower.why).Remedy)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Empty(t, done, "gRPC still has the batch")
			require.NoError(t, slow.why, "the bytes that leave are enough")
			slower.Release()
			tr.connectionEnded(slower.connection)
			require.NoError(t, <-done)
			require.Equal(t, int64(70), tr.total())
			lost.Release() // the reference of the sender
			kept.Release()
			l.Release()
			require.Zero(t, tr.total())
			slow.Release()
			reader.Release()
		},
		"the slowest stream waits without a limit": func(t *testing.T, tr *inflightBatches) {
			slow, other := travel(tr), travel(tr)
			first := slow.hand(t, 60)
			time.Sleep(time.Second)
			second := other.hand(t, 40)
			done := make(chan error, 1)
			l := leaseOf(t, slow.streamInflight, 60)
			go func() { done <- slow.admit(t.Context(), l) }()
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Empty(t, done)
			require.NoError(t, other.why)
			first.Release()
			require.NoError(t, <-done)
			l.Release()
			second.Release()
			slow.Release()
			other.Release()
		},
		"any other stream fails in the end": func(t *testing.T, tr *inflightBatches) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			done := make(chan error, 1)
			l := leaseOf(t, other.streamInflight, 60)
			go func() { done <- other.admit(t.Context(), l) }()
			for len(done) == 0 {
				one.move()
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
			}
			err := <-done
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			require.Equal(t, maxInflightWait, fault.As(err).RetryAfter)
			l.Release()
			first.Release()
			one.Release()
			other.Release()
		},
		"a batch of two clients counts once": func(t *testing.T, tr *inflightBatches) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			time.Sleep(time.Millisecond) // one is the slowest
			second := newBatchLease(first.batch, other.streamInflight, nil)
			require.NoError(t, other.admit(t.Context(), second), "it takes no more")
			require.Equal(t, int64(60), tr.total())
			time.Sleep(stalledAfter)
			third := leaseOf(t, other.streamInflight, 60)
			wait, freed, cut := other.tryAdmit(third)
			require.NotNil(t, freed)
			require.Positive(t, wait)
			require.Len(t, cut, 1)
			require.Zero(t, tr.leaving, "the other client has the batch, too")
			first.Release()
			require.Equal(t, int64(60), tr.total())
			second.Release()
			require.NoError(t, other.admit(t.Context(), third))
			third.Release()
			one.Release()
			other.Release()
		},
		"a stream that ends stops waiting": func(t *testing.T, tr *inflightBatches) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("gone")
			cancel(gone)
			l := leaseOf(t, other.streamInflight, 60)
			require.ErrorIs(t, other.admit(ctx, l), gone)
			l.Release()
			first.Release()
			one.Release()
			other.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr := newInflightBatches(100, time.Now)
				run(t, tr)
				require.Zero(t, tr.total())
				require.Zero(t, tr.leaving)
				require.Empty(t, tr.streams)
				require.Empty(t, tr.memory)
			})
		})
	}
}

// heavy returns a constructor of streams of batches of 1 MiB, reserved from a budget.
func heavy(t *testing.T, b *budget.Budget, batches int) func(context.Context) *canned {
	t.Helper()
	const bytes = 1 << 20
	return func(ctx context.Context) *canned {
		var last arrow.RecordBatch
		drop := func() {
			if last != nil {
				last.Release()
				last = nil
			}
		}
		return &canned{released: drop, next: func(n int) (arrow.RecordBatch, error) {
			drop()
			if n == batches {
				return nil, ctx.Err()
			}
			held, err := b.Reserve("a batch", 0)
			if err == nil {
				err = held.GrowWait(ctx, bytes)
			}
			if err != nil {
				return nil, err
			}
			last = batch.NewCharged(numbers(bytes/arrow.Int64SizeBytes), held)
			return last, nil
		}}
	}
}

// stall opens a stream over its own connection, and reads only its schema.
func (s *served) stall(t *testing.T) arrowflight.FlightService_DoGetClient {
	t.Helper()
	stream, err := dial(t, s.address).DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	return stream
}

// bodies reads a stream to its end, and returns the number of its batches of 1 MiB.
func bodies(t *testing.T, stream arrowflight.FlightService_DoGetClient) int {
	t.Helper()
	batches := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return batches
		}
		if len(m.GetDataBody()) > 0 {
			require.Len(t, m.GetDataBody(), 1<<20)
			batches++
		}
	}
}

// requireNothingHeld waits until the memory of all batches is released.
func (s *served) requireNothingHeld(t *testing.T, b *budget.Budget) {
	t.Helper()
	for until := time.Now().Add(time.Minute); b.Used() != 0 || s.server.inflight.total() != 0; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(until), "%d bytes are held, %d of them in flight", b.Used(), s.server.inflight.total())
	}
}

// A client that reads gets all of its rows. Clients that do not read lose their connections
// when their batches are in the way.
//
// spec: wire-10
func TestStalledClientsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	b := budget.New(64 << 20)
	s := serve(t, Options{Loader: opens(newWorld(t).loader(), heavy(t, b, 100)), MaxTransit: 8 << 20, Clock: time.Now, Pressed: b.Pressed})
	var stalled []arrowflight.FlightService_DoGetClient
	for range 12 { // each holds a batch that gRPC has
		stalled = append(stalled, s.stall(t))
	}
	stream, err := s.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
	require.NoError(t, err)
	require.Equal(t, 100, bodies(t, stream))
	require.LessOrEqual(t, b.Peak(), int64((8+2*13)<<20), "besides batches in flight, each stream has at most two")
	lost := 0
	for _, stream := range stalled {
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		if code, _ := failure(t, err, nil); code == codes.Unavailable {
			lost++
		}
	}
	require.GreaterOrEqual(t, lost, 4, "8 MiB hold the batches of 8")
	for range 13 {
		<-s.ended
	}
	s.requireNothingHeld(t, b)
}

// The batches that gRPC had of a broken connection are released.
//
// spec: wire-9
func TestBrokenConnectionsReleaseTheirBatches(t *testing.T) {
	t.Parallel()
	b := budget.New(64 << 20)
	s := serve(t, Options{Loader: opens(newWorld(t).loader(), heavy(t, b, 1000)), Clock: time.Now})
	for range 4 {
		client := dial(t, s.address)
		stream, err := client.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
		require.NoError(t, err)
		for range 3 {
			_, err = stream.Recv()
			require.NoError(t, err)
		}
		require.Positive(t, b.Used())
		require.NoError(t, client.Close())
		<-s.ended
		s.requireNothingHeld(t, b)
	}
}

// Frames that were never handed to gRPC are released by their sender.
//
// spec: wire-9
func TestUnsentFramesAreReleased(t *testing.T) {
	t.Parallel()
	b := budget.New(1 << 20)
	held, err := b.Reserve("a batch", 1000)
	require.NoError(t, err)
	batch := batch.NewCharged(numbers(5000), held)
	l := newBatchLease(batch, nil, nil)
	made, err := newFrames(batch.Schema()).batch(batch, nil, l)
	require.NoError(t, err)
	batch.Release()
	l.Release()
	require.Equal(t, int64(1000), b.Used())
	for _, f := range made {
		f.Release()
		f.Release()
	}
	require.Zero(t, b.Used())
}

// Only batches that the network has count as memory that is released without further action.
func TestWaitingBatchesAreNotInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		tr := newInflightBatches(50, time.Now)
		charged := func(n int64) *batch.Charged {
			held, err := b.Reserve("a batch", n)
			require.NoError(t, err)
			return batch.NewCharged(numbers(1), held)
		}
		p := travel(tr)
		one, two := charged(40), charged(40)
		l1, l2 := newBatchLease(one, p.streamInflight, nil), newBatchLease(two, p.streamInflight, nil)
		one.Release()
		two.Release()
		require.NoError(t, p.admit(t.Context(), l1))
		done := make(chan error, 1)
		go func() { done <- p.admit(t.Context(), l2) }()
		for range 20 { // as watchStreams does
			time.Sleep(time.Second)
			p.markStalled()
		}
		// Now no stream can release memory: the only stream that waits must fail at once.
		ctx, stream := b.Enter(t.Context(), "")
		r, err := b.Reserve("rows", 0)
		require.NoError(t, err)
		began := time.Now()
		err = r.GrowWait(ctx, 60)
		require.Error(t, err)
		stream.Release()
		took := time.Since(began)
		l1.end()
		require.NoError(t, <-done)
		l2.end()
		p.Release()
		require.Less(t, took, 2*time.Second)
	})
}

// All streams of a connection end with it, and its bytes count as leaving.
//
// spec: wire-10
func TestSharedConnectionsAreCutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newInflightBatches(100, time.Now)
		conn := &connection{conn: &closing{closed: make(chan struct{})}}
		end := func(error) {}
		s1 := &traveller{streamInflight: tr.enter(conn, end)}
		s2 := &traveller{streamInflight: tr.enter(conn, end)}
		other := travel(tr)
		s1.hand(t, 40)
		time.Sleep(10 * time.Millisecond)
		other.hand(t, 10)
		time.Sleep(10 * time.Millisecond)
		s2.hand(t, 40)
		time.Sleep(2 * time.Second)
		reader := travel(tr)
		_, _, victim := reader.tryAdmit(leaseOf(t, reader.streamInflight, 60))
		require.ElementsMatch(t, []*streamInflight{s1.streamInflight, s2.streamInflight}, victim)
		// conn is closed, and 80 bytes are leaving. Before they have left:
		_, _, victim = reader.tryAdmit(leaseOf(t, reader.streamInflight, 60))
		require.Empty(t, victim, "the 80 bytes of the closed connection are enough")
	})
}
