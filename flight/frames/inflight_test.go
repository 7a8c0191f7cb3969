package frames

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// traveller is a stream of a test.
type traveller struct {
	*StreamInflight
	closed chan struct{} // once its connection is
	why    error         // the cause with which it was ended
}

func travel(tr *Inflight) *traveller {
	t := &traveller{closed: make(chan struct{})}
	t.StreamInflight = tr.Enter(Client{Connection: t, Cut: func() { close(t.closed) }}, func(why error) { t.why = why })
	return t
}

// Batches of the loader are counted: NewBatchLease finds this out at run time.
var _ charged = (*batch.Charged)(nil)

// leaseOf returns a lease on a batch that takes a number of bytes of a budget.
func leaseOf(t *testing.T, p *StreamInflight, bytes int64) *Lease {
	t.Helper()
	held, err := (*budget.Budget)(nil).Reserve("a batch", bytes)
	require.NoError(t, err)
	b := batch.NewCharged(numbers(1), held)
	defer b.Release()
	return NewBatchLease(b, p, nil)
}

// bytesOf returns the bytes of all batches in flight.
func bytesOf(tr *Inflight) int64 {
	_, bytes := tr.Counts()
	return bytes
}

// hand hands a batch to gRPC.
func (p *traveller) hand(t *testing.T, bytes int64) *Lease {
	t.Helper()
	l := leaseOf(t, p.StreamInflight, bytes)
	require.NoError(t, p.Admit(t.Context(), l))
	return l
}

// spec: wire-10
func TestInflightBatches(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, tr *Inflight){
		"a batch over the limit is sent alone": func(t *testing.T, tr *Inflight) {
			one := travel(tr)
			l := one.hand(t, 1000)
			require.Equal(t, int64(1000), bytesOf(tr))
			l.Release()
			l.end() // gRPC may be late
			require.Zero(t, bytesOf(tr))
			one.Release()
		},
		"a batch waits for streams that move": func(t *testing.T, tr *Inflight) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			done := make(chan error, 1)
			l := leaseOf(t, other.StreamInflight, 60)
			go func() { done <- other.Admit(t.Context(), l) }()
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				synctest.Wait()
				one.Move()
				require.Empty(t, done)
			}
			first.Release()
			require.NoError(t, <-done)
			require.NoError(t, one.why)
			l.Release()
			one.Release()
			other.Release()
		},
		"the slowest loses its connection": func(t *testing.T, tr *Inflight) {
			slow, slower, reader := travel(tr), travel(tr), travel(tr)
			lost := slower.hand(t, 50)
			time.Sleep(100 * time.Millisecond)
			kept := slow.hand(t, 40)
			done := make(chan error, 1)
			l := leaseOf(t, reader.StreamInflight, 30)
			go func() { done <- reader.Admit(t.Context(), l) }()
			<-slower.closed
			require.Equal(t, fault.Unavailable, fault.KindOf(slower.why))
			require.ErrorContains(t, slower.why, "the client took nothing for 1s")
			require.NotEmpty(t, fault.As(slower.why).Remedy)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Empty(t, done, "gRPC still has the batch")
			require.NoError(t, slow.why, "the bytes that leave are enough")
			slower.Release()
			tr.ConnectionEnded(slower.client.Connection)
			require.NoError(t, <-done)
			require.Equal(t, int64(70), bytesOf(tr))
			lost.Release() // the reference of the sender
			kept.Release()
			l.Release()
			require.Zero(t, bytesOf(tr))
			slow.Release()
			reader.Release()
		},
		"the slowest stream waits without a limit": func(t *testing.T, tr *Inflight) {
			slow, other := travel(tr), travel(tr)
			first := slow.hand(t, 60)
			time.Sleep(time.Second)
			second := other.hand(t, 40)
			done := make(chan error, 1)
			l := leaseOf(t, slow.StreamInflight, 60)
			go func() { done <- slow.Admit(t.Context(), l) }()
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
		"any other stream fails in the end": func(t *testing.T, tr *Inflight) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			done := make(chan error, 1)
			l := leaseOf(t, other.StreamInflight, 60)
			go func() { done <- other.Admit(t.Context(), l) }()
			for len(done) == 0 {
				one.Move()
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
		"a batch of two clients counts once": func(t *testing.T, tr *Inflight) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			time.Sleep(time.Millisecond) // one is the slowest
			second := NewBatchLease(first.payload.(leasedBatch).batch, other.StreamInflight, nil)
			require.NoError(t, other.Admit(t.Context(), second), "it takes no more")
			require.Equal(t, int64(60), bytesOf(tr))
			time.Sleep(StalledAfter)
			third := leaseOf(t, other.StreamInflight, 60)
			wait, freed, cut := other.tryAdmit(third)
			require.NotNil(t, freed)
			require.Positive(t, wait)
			require.Len(t, cut, 1)
			require.Zero(t, tr.leaving, "the other client has the batch, too")
			first.Release()
			require.Equal(t, int64(60), bytesOf(tr))
			second.Release()
			require.NoError(t, other.Admit(t.Context(), third))
			third.Release()
			one.Release()
			other.Release()
		},
		"a stream that ends stops waiting": func(t *testing.T, tr *Inflight) {
			one, other := travel(tr), travel(tr)
			first := one.hand(t, 60)
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("gone")
			cancel(gone)
			l := leaseOf(t, other.StreamInflight, 60)
			require.ErrorIs(t, other.Admit(ctx, l), gone)
			l.Release()
			first.Release()
			one.Release()
			other.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr := NewInflight(100, time.Now)
				run(t, tr)
				require.Zero(t, bytesOf(tr))
				require.Zero(t, tr.leaving)
				require.Empty(t, tr.streams)
				require.Empty(t, tr.memory)
			})
		})
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
	l := NewBatchLease(batch, nil, nil)
	made, err := NewEncoder(batch.Schema()).Batch(batch, nil, l)
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
		tr := NewInflight(50, time.Now)
		charged := func(n int64) *batch.Charged {
			held, err := b.Reserve("a batch", n)
			require.NoError(t, err)
			return batch.NewCharged(numbers(1), held)
		}
		p := travel(tr)
		one, two := charged(40), charged(40)
		l1, l2 := NewBatchLease(one, p.StreamInflight, nil), NewBatchLease(two, p.StreamInflight, nil)
		one.Release()
		two.Release()
		require.NoError(t, p.Admit(t.Context(), l1))
		done := make(chan error, 1)
		go func() { done <- p.Admit(t.Context(), l2) }()
		for range 20 { // as watchStreams does
			time.Sleep(time.Second)
			p.MarkStalled()
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
		tr := NewInflight(100, time.Now)
		cut := 0
		conn := Client{Connection: new(int), Cut: func() { cut++ }}
		end := func(error) {}
		s1 := &traveller{StreamInflight: tr.Enter(conn, end)}
		s2 := &traveller{StreamInflight: tr.Enter(conn, end)}
		other := travel(tr)
		s1.hand(t, 40)
		time.Sleep(10 * time.Millisecond)
		other.hand(t, 10)
		time.Sleep(10 * time.Millisecond)
		s2.hand(t, 40)
		time.Sleep(2 * time.Second)
		reader := travel(tr)
		_, _, victim := reader.tryAdmit(leaseOf(t, reader.StreamInflight, 60))
		require.ElementsMatch(t, []*StreamInflight{s1.StreamInflight, s2.StreamInflight}, victim)
		// conn is closed, and 80 bytes are leaving. Before they have left:
		_, _, victim = reader.tryAdmit(leaseOf(t, reader.StreamInflight, 60))
		require.Empty(t, victim, "the 80 bytes of the closed connection are enough")
	})
}
