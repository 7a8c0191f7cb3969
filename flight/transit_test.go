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

// closing is a connection of which it is known whether it was closed.
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
	*passage
	conn *closing
	why  error // that it was ended with
}

func travel(tr *transit) *traveller {
	conn := &closing{closed: make(chan struct{})}
	t := &traveller{conn: conn}
	t.passage = tr.enter(&connection{conn: conn}, func(why error) { t.why = why })
	return t
}

// leaseOf is a lease of a batch that takes so many bytes of a budget.
func leaseOf(t *testing.T, p *passage, bytes int64) *lease {
	t.Helper()
	held, err := (*budget.Budget)(nil).Reserve("a batch", bytes)
	require.NoError(t, err)
	b := batch.NewCharged(numbers(1), held)
	defer b.Release()
	return newLease(b, p)
}

// hand hands a batch over, or fails the test.
func (p *traveller) hand(t *testing.T, bytes int64) *lease {
	t.Helper()
	l := leaseOf(t, p.passage, bytes)
	require.NoError(t, p.admit(t.Context(), l))
	return l
}

// spec: wire-10
func TestTransit(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, tr *transit){
		"a batch that is larger than all room goes alone": func(t *testing.T, tr *transit) {
			one := travel(tr)
			l := one.hand(t, 1000)
			require.Equal(t, int64(1000), tr.onTheWay())
			l.drop()
			l.end() // gRPC may be late
			require.Zero(t, tr.onTheWay())
			one.leave()
		},
		"a batch waits for those that move": func(t *testing.T, tr *transit) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			done := make(chan error, 1)
			l := leaseOf(t, other.passage, 60)
			go func() { done <- other.admit(t.Context(), l) }()
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				synctest.Wait()
				one.move()
				require.Empty(t, done)
			}
			first.drop()
			require.NoError(t, <-done)
			require.NoError(t, one.why)
			l.drop()
			one.leave()
			other.leave()
		},
		"the slowest loses its connection": func(t *testing.T, tr *transit) {
			slow, slower, reader := travel(tr), travel(tr), travel(tr)
			lost := slower.hand(t, 50)
			time.Sleep(100 * time.Millisecond)
			kept := slow.hand(t, 40)
			done := make(chan error, 1)
			l := leaseOf(t, reader.passage, 30)
			go func() { done <- reader.admit(t.Context(), l) }()
			<-slower.conn.closed
			require.Equal(t, fault.Unavailable, fault.KindOf(slower.why))
			require.ErrorContains(t, slower.why, "the client took nothing for 1s")
			require.NotEmpty(t, fault.As(slower.why).Remedy)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Empty(t, done, "gRPC has the batch still")
			require.NoError(t, slow.why, "what leaves is enough")
			slower.leave()
			tr.connectionEnded(slower.connection)
			require.NoError(t, <-done)
			require.Equal(t, int64(70), tr.onTheWay())
			lost.drop() // the sender's
			kept.drop()
			l.drop()
			require.Zero(t, tr.onTheWay())
			slow.leave()
			reader.leave()
		},
		"the slowest itself waits as long as it takes": func(t *testing.T, tr *transit) {
			slow, other := travel(tr), travel(tr)
			first := slow.hand(t, 60)
			time.Sleep(time.Second)
			second := other.hand(t, 40)
			done := make(chan error, 1)
			l := leaseOf(t, slow.passage, 60)
			go func() { done <- slow.admit(t.Context(), l) }()
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Empty(t, done)
			require.NoError(t, other.why)
			first.drop()
			require.NoError(t, <-done)
			l.drop()
			second.drop()
			slow.leave()
			other.leave()
		},
		"nobody waits for ever": func(t *testing.T, tr *transit) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			done := make(chan error, 1)
			l := leaseOf(t, other.passage, 60)
			go func() { done <- other.admit(t.Context(), l) }()
			for len(done) == 0 {
				one.move()
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
			}
			err := <-done
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			require.Equal(t, transitPatience, fault.As(err).RetryAfter)
			l.drop()
			first.drop()
			one.leave()
			other.leave()
		},
		"a stream that ends waits no more": func(t *testing.T, tr *transit) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("gone")
			cancel(gone)
			l := leaseOf(t, other.passage, 60)
			require.ErrorIs(t, other.admit(ctx, l), gone)
			l.drop()
			first.drop()
			one.leave()
			other.leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr := newTransit(100, time.Now)
				run(t, tr)
				require.Zero(t, tr.onTheWay())
				require.Zero(t, tr.leaving)
				require.Empty(t, tr.passages)
			})
		})
	}
}

// heavy makes streams of batches of a MiB that a budget pays for.
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

// stall opens a stream by a connection of its own and reads its schema alone.
func (s *served) stall(t *testing.T) arrowflight.FlightService_DoGetClient {
	t.Helper()
	stream, err := dial(t, s.address).DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	return stream
}

// bodies reads a stream to its end, and returns how many batches of a MiB came.
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

// requireNothingHeld waits until all memory of batches was given back.
func (s *served) requireNothingHeld(t *testing.T, b *budget.Budget) {
	t.Helper()
	for until := time.Now().Add(time.Minute); b.Used() != 0 || s.server.transit.onTheWay() != 0; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(until), "%d bytes are held, %d of them on their way", b.Used(), s.server.transit.onTheWay())
	}
}

// TestStalledClientsDoNotHoldUpOthers: whoever reads gets all of its rows, and
// those that do not lose their connections when their batches stand in the way.
//
// spec: wire-10
func TestStalledClientsDoNotHoldUpOthers(t *testing.T) {
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
	require.LessOrEqual(t, b.Peak(), int64((8+2*13)<<20), "beside what is on its way, each stream has two batches at most")
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

// TestConnectionsThatBreak give back what gRPC had of them.
//
// spec: wire-9
func TestConnectionsThatBreak(t *testing.T) {
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

// TestUnsentFrames: what was never handed to gRPC ends with its sender.
//
// spec: wire-9
func TestUnsentFrames(t *testing.T) {
	t.Parallel()
	b := budget.New(1 << 20)
	held, err := b.Reserve("a batch", 1000)
	require.NoError(t, err)
	batch := batch.NewCharged(numbers(5000), held)
	l := newLease(batch, nil)
	made, err := newFrames(batch.Schema()).batch(batch, nil, l)
	require.NoError(t, err)
	batch.Release()
	l.drop()
	require.Equal(t, int64(1000), b.Used())
	for _, f := range made {
		f.drop()
		f.drop()
	}
	require.Zero(t, b.Used())
}

// TestBatchesThatWaitAreNotLent: only what the network has comes back by itself.
func TestBatchesThatWaitAreNotLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		tr := newTransit(50, time.Now)
		charged := func(n int64) *batch.Charged {
			held, err := b.Reserve("a batch", n)
			require.NoError(t, err)
			return batch.NewCharged(numbers(1), held)
		}
		p := travel(tr)
		one, two := charged(40), charged(40)
		l1, l2 := newLease(one, p.passage), newLease(two, p.passage)
		one.Release()
		two.Release()
		require.NoError(t, p.admit(t.Context(), l1))
		done := make(chan error, 1)
		go func() { done <- p.admit(t.Context(), l2) }()
		for range 20 { // what watchSeats does
			time.Sleep(time.Second)
			p.stuck()
		}
		// Now no stream can give anything back: the only stream that waits must fail at once.
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
		p.leave()
		require.Less(t, took, 2*time.Second)
	})
}

// TestSharedConnectionsAreCutOnce: all streams of a connection give way with it.
//
// spec: wire-10
func TestSharedConnectionsAreCutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransit(100, time.Now)
		conn := &connection{conn: &closing{closed: make(chan struct{})}}
		end := func(error) {}
		s1 := &traveller{passage: tr.enter(conn, end)}
		s2 := &traveller{passage: tr.enter(conn, end)}
		other := travel(tr)
		s1.hand(t, 40)
		time.Sleep(10 * time.Millisecond)
		other.hand(t, 10)
		time.Sleep(10 * time.Millisecond)
		s2.hand(t, 40)
		time.Sleep(2 * time.Second)
		reader := travel(tr)
		_, _, victim := reader.tryAdmit(leaseOf(t, reader.passage, 60))
		require.ElementsMatch(t, []*passage{s1.passage, s2.passage}, victim)
		// conn is closed: 80 bytes leave. Another look, before they have:
		_, _, victim = reader.tryAdmit(leaseOf(t, reader.passage, 60))
		require.Empty(t, victim, "the 80 bytes of the closed connection are enough")
	})
}
