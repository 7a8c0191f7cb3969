package flight

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// hoarder is a stream whose batches each need two units of a budget, one after the other.
type hoarder struct {
	*canned
	budget *budget.Budget
	ctx    context.Context
	open   *release.Handle // nil: it holds nothing
	held   *budget.Reservation
	second func() // called before the second unit is reserved
}

const unit = 1 << 20

// grow reserves what the next batch needs.
func (h *hoarder) grow() error {
	if h.open == nil {
		ctx, open := h.budget.Enter(h.ctx, "x")
		held, err := h.budget.ReserveFor(ctx, "a batch", 0)
		if err != nil {
			return err
		}
		h.open, h.held = open, held
		if err := held.GrowWait(ctx, unit); err != nil {
			return err
		}
		h.second()
		return held.GrowWait(ctx, unit)
	}
	return nil
}

// close releases all memory.
func (h *hoarder) close() {
	if h.open != nil {
		h.held.Release()
		h.open.Release()
		h.open = nil
	}
}

// hoarders returns the streams of a loader, each with a number of batches. The first streams that
// fill the budget wait for each other before they need more.
func hoarders(b *budget.Budget, batches int) func(ctx context.Context) *canned {
	var mu sync.Mutex
	fill, full := int(b.Limit()/unit), make(chan struct{})
	return func(ctx context.Context) *canned {
		h := &hoarder{canned: &canned{}, budget: b, ctx: ctx}
		h.second = func() {
			mu.Lock()
			if fill--; fill == 0 {
				close(full)
			}
			mu.Unlock()
			select {
			case <-full:
			case <-ctx.Done():
			}
		}
		h.next = func(n int) (arrow.RecordBatch, error) {
			if n == batches {
				return nil, nil //nolint:nilnil // the end of a stream
			}
			if err := h.grow(); err != nil {
				return nil, err
			}
			if n%2 == 1 { // the next batch needs the memory again
				h.close()
			}
			return numbers(3), nil
		}
		h.setBack = func() bool {
			h.close()
			return true
		}
		h.released = h.close
		return h.canned
	}
}

// More streams than the budget carries wait for each other, and all return all of their rows.
//
// spec: wire-52
func TestStreamsBeyondTheBudgetWaitAndThenRun(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{3, 6, 40} {
		b := budget.New(3*unit + unit/2)
		var observed atomic.Int64
		s := serve(t, Options{MaxStreams: slots, Budget: b, Clock: time.Now, Pressed: b.Pressed, Observer: Observer{StreamSetBack: func(dataset string) {
			if dataset == "homefeed" {
				observed.Add(1)
			}
		}}, Loader: opens(newWorld(t).loader(), hoarders(b, 9))})
		ticket := s.ticket(t, `{"dataset": "homefeed", "columns": ["item"]}`)
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				stream, err := s.DoGet(t.Context(), ticket)
				if err != nil {
					t.Errorf("a stream did not begin: %v", err)
					return
				}
				n := 0
				for {
					m, err := stream.Recv()
					if err != nil {
						if n != 9 || !errors.Is(err, io.EOF) {
							t.Errorf("a stream ended after %d batches of 9: %v", n, err)
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
		require.Zero(t, b.Used())
		require.Zero(t, b.Streams())
		require.Positive(t, observed.Load())
	}
}

// A stream that is not crowded fails at once, and so does one that cannot be undone.
func TestOtherFailuresDoNotSetBack(t *testing.T) {
	a := admission.New(4, 75, time.Now)
	at := a.Of(admission.Stream{Client: "x", Plan: "p"})
	defer at.Release()
	calls := 0
	failing := errors.New("it fails")
	err := at.Within(t.Context(), func() error { calls++; return failing }, nil)
	require.ErrorIs(t, err, failing)
	require.Equal(t, 1, calls)
	crowded := crowdedError(t)
	err = at.Within(t.Context(), func() error { calls++; return crowded }, func() bool { return false })
	require.ErrorIs(t, err, crowded)
	require.Equal(t, 2, calls)
	require.Equal(t, 1, a.Counts().Taken)
}

// crowdedError returns the failure of a reservation for which other streams leave no room.
func crowdedError(t *testing.T) error {
	b := budget.New(unit)
	_, one := b.Enter(t.Context(), "x")
	defer one.Release()
	_, other := b.Enter(t.Context(), "x")
	defer other.Release()
	held, err := b.Reserve("another stream", unit)
	require.NoError(t, err)
	defer held.Release()
	_, err = b.Reserve("a batch", 1)
	require.True(t, budget.Crowded(err))
	return err
}

// A count for which other streams leave no memory is tried again when it has a slot.
//
// spec: wire-52
func TestCountsThatLackMemoryAreTriedAgain(t *testing.T) {
	t.Parallel()
	w, tries := newWorld(t), 0
	s := serve(t, Options{MaxStreams: 2, Loader: altered{Loader: w.loader(), count: func(ctx context.Context, admit loader.Admit) (*dataset.Counts, error) {
		_, leave, err := admit(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		if tries++; tries < 3 {
			return nil, crowdedError(t)
		}
		return dataset.NewCounts([]int64{9}), nil
	}}})
	_, err := s.GetFlightInfo(t.Context(), flighttest.Command(filtered(`"tail": "drop", "lanes": 1`)))
	require.NoError(t, err)
	require.Equal(t, 3, tries)
}
