package flight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/budget"
)

// A stream whose client takes nothing is parked under pressure, or after a long time, but not
// while it makes a batch.
//
// spec: wire-11
func TestStalledStreamsAreParked(t *testing.T) {
	t.Parallel()
	for _, pressed := range []bool{true, false} {
		var mu sync.Mutex
		now := time.Now()
		stuck := now.Add(stuckAfter)
		clock := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}
		parked := make(chan bool, 100)
		c := heavy(t, nil, 5)
		s := serve(t, Options{Clock: clock, StallTimeout: 1 << 60, Pressed: func() bool { return pressed }, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
			made := c(ctx)
			made.park = func(pressed bool) bool {
				select {
				case parked <- pressed:
				default:
				}
				return true
			}
			return made
		})})
		stream := s.stall(t)
		for range 2 { // a resumed stream may stall again
			for len(parked) > 0 {
				<-parked
			}
			got := awaited(t, parked, func() {
				mu.Lock()
				defer mu.Unlock()
				if !pressed {
					now = now.Add(2 * time.Minute)
				} else if next := now.Add(300 * time.Millisecond); next.Before(stuck) {
					now = next
				}
			})
			require.Equal(t, pressed, got)
		}
		require.Equal(t, 5, bodies(t, stream), "all batches come")
		require.Equal(t, "ok", (<-s.ended).End)
	}
}

// TestStuckStreamsAreParkedForOthers checks that a stream whose client reads nothing is parked for
// streams that need its slot or its memory, although it has only just resumed: the client may be a
// rank that waits for the rank of one of these streams.
//
// spec: wire-12
func TestStuckStreamsAreParkedForOthers(t *testing.T) {
	t.Parallel()
	for _, pressed := range []bool{true, false} {
		var ticks atomic.Int64
		parked := make(chan bool, 1000)
		made := heavy(t, nil, 5)
		s := serve(t, Options{MaxStreams: 1, Clock: time.Now, Ticks: func() time.Time { return time.Unix(0, ticks.Load()) }, StallTimeout: 1 << 60, Pressed: func() bool { return pressed }, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
			c := made(ctx)
			c.park = func(pressed bool) bool {
				if !pressed {
					parked <- true
				}
				return !pressed // as if it had read rows again, and had returned none since
			}
			return c
		})})
		stalled := s.stall(t)
		streams := []arrowflight.FlightService_DoGetClient{stalled}
		if !pressed { // another stream waits for the slot
			other, err := s.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
			require.NoError(t, err)
			streams = []arrowflight.FlightService_DoGetClient{other, stalled}
		}
		awaited(t, parked, func() {
			if ticks.Load() < int64(idleAfter)/2 {
				ticks.Add(int64(checkEvery))
			}
		})
		for _, stream := range streams {
			require.Equal(t, 5, bodies(t, stream), "all batches come")
		}
	}
}

// awaited receives a value, and advances a clock until it comes: the server checks its streams in real time.
func awaited[T any](t testing.TB, from <-chan T, advance func()) T {
	t.Helper()
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case got := <-from:
			return got
		case <-every.C:
			advance()
		case <-ctx.Done():
			require.FailNow(t, "nothing came within a minute")
		}
	}
}

// TestStallTimeout checks that streams whose clients do not read are ended.
//
// spec: wire-13
func TestStallTimeout(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	s := serve(t, Options{StallTimeout: time.Hour, Loader: opens(newWorld(t).loader(), heavy(t, nil, 5)), Clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	stream := s.stall(t)
	end := awaited(t, s.ended, func() {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Minute)
	})
	require.Equal(t, "unavailable", end.End)
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.Unavailable, code)
}

// TestSlowStepsKeepTheirStreams checks that ranks that compute for longer than a second keep
// their streams, even if their next batches need the memory of their last ones.
func TestSlowStepsKeepTheirStreams(t *testing.T) {
	t.Parallel()
	b := budget.New(3 << 19) // a batch and a half: both wait for the first one's
	under := heavy(t, b, 3)
	var clock atomic.Int64
	s := serve(t, Options{Ticks: func() time.Time { return time.Unix(0, clock.Load()) }, Pressed: b.Pressed, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
		ctx, stream := b.Enter(ctx, "x")
		c := under(ctx)
		released := c.released
		c.released = func() { released(); stream.Release() }
		return c
	})})
	one, two := s.stall(t), s.stall(t)
	waits := func() bool { return s.inFlight() > 0 && b.Pressed() }
	require.Eventually(t, waits, time.Minute, time.Millisecond, "no stream waits for the memory of the other's batch")
	for range 2 * time.Second / checkEvery { // a training step
		clock.Add(int64(checkEvery))
		s.server.parking.checkStalled(b.Pressed())
	}
	var all sync.WaitGroup
	for i, stream := range []arrowflight.FlightService_DoGetClient{one, two} {
		all.Go(func() {
			n := 0
			for {
				m, err := stream.Recv()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("rank %d failed after %d batches: %v", i, n, err)
					}
					return
				}
				if len(m.GetDataBody()) > 0 {
					n++
				}
			}
		})
	}
	all.Wait()
}

// A panic while a stream is parked ends that stream and no other.
func TestPanicWhileParkingEndsTheStream(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	c := heavy(t, nil, 5)
	s := serve(t, Options{Clock: time.Now, Ticks: rushing(), StallTimeout: 1 << 60, Pressed: func() bool { return true }, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
		made := c(ctx)
		if first.CompareAndSwap(false, true) { // the clock is fast, so the other stream is parked too
			made.park = func(bool) bool { panic("broken") }
		}
		return made
	})})
	stream := s.stall(t)
	require.Equal(t, "internal", (<-s.ended).End)
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	other, err := s.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
	require.NoError(t, err)
	require.Equal(t, 5, bodies(t, other))
}

// rushing returns a clock that is five times as fast: stalled streams are parked soon for
// others, and for being idle only long after the others have given up.
func rushing() func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(5 * time.Since(began)) }
}

// Streams whose clients read are admitted while others stall, and the stalled ones resume after
// them.
//
// spec: wire-14
func TestParkedStreamsHoldNoSlot(t *testing.T) {
	t.Parallel()
	var s *served
	made := canPark(heavy(t, nil, 20))
	s = serve(t, Options{MaxStreams: 1, Clock: time.Now, Ticks: rushing(), StallTimeout: 1 << 60, Loader: opens(newWorld(t).loader(), func(ctx context.Context) *canned {
		c := made(ctx)
		next := c.next
		c.next = func(n int) (arrow.RecordBatch, error) {
			if a := s.server.admission; a.Counts().Taken != 1 {
				t.Errorf("%d streams have slots", a.Counts().Taken)
			}
			return next(n)
		}
		return c
	})})
	stalled := []arrowflight.FlightService_DoGetClient{s.stall(t), s.stall(t)}
	for range 2 {
		stream, err := s.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
		require.NoError(t, err)
		require.Equal(t, 20, bodies(t, stream))
	}
	for _, stream := range stalled {
		require.Equal(t, 20, bodies(t, stream))
	}
	for range 4 {
		require.Equal(t, "ok", (<-s.ended).End)
	}
	require.Zero(t, s.server.Waiting())
}

// Jobs whose ranks take each batch together complete, even if there are fewer slots than ranks
// of one job.
//
// spec: wire-14
func TestRanksInLockstepComplete(t *testing.T) {
	t.Parallel()
	const jobs, ranks, batches = 2, 3, 12
	for _, slots := range []int{2, 4} {
		s := serve(t, Options{MaxStreams: slots, Clock: time.Now, Ticks: rushing(), StallTimeout: 1 << 60, Loader: opens(newWorld(t).loader(), canPark(heavy(t, nil, batches)))})
		ctx, fail := context.WithTimeout(t.Context(), time.Minute) // one failure ends all
		defer fail()
		var all sync.WaitGroup
		for range jobs {
			step := newBarrier(ranks)
			for rank := range ranks {
				ticket := s.ticket(t, fmt.Sprintf(`{"dataset":"homefeed","lanes":%d,"shard":{"index":%d,"of":%d}}`, ranks, rank, ranks))
				all.Go(func() {
					stream, err := dial(t, s.address).DoGet(ctx, ticket)
					for got := 0; err == nil && got < batches; {
						var m *arrowflight.FlightData
						if m, err = stream.Recv(); err == nil && len(m.GetDataBody()) > 0 {
							got++
							err = step.wait(ctx)
						}
					}
					if err != nil {
						t.Error(err)
						fail()
					}
				})
			}
		}
		all.Wait()
	}
}

// barrier makes goroutines wait for each other, repeatedly.
type barrier struct {
	of   int
	mu   sync.Mutex
	here int
	open chan struct{}
}

func newBarrier(of int) *barrier { return &barrier{of: of, open: make(chan struct{})} }

func (b *barrier) wait(ctx context.Context) error {
	b.mu.Lock()
	open := b.open
	if b.here++; b.here == b.of {
		b.here, b.open = 0, make(chan struct{})
		close(open)
	}
	b.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// canPark returns a constructor of streams that can be parked.
func canPark(made func(context.Context) *canned) func(context.Context) *canned {
	return func(ctx context.Context) *canned {
		c := made(ctx)
		c.park = func(bool) bool { return true }
		return c
	}
}
