package ui

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// measureTime bounds the time to measure what one page shows.
	measureTime = 10 * time.Minute
	// firstTime is how long a page waits for the first message about progress before it begins. Servers refuse a call before that message,
	// so that a refusal has its status.
	firstTime = 2 * time.Second
)

// tookTooLong is why a measurement ends at its deadline.
func tookTooLong() error {
	return fault.New(fault.Unavailable, "the measurement was not ready after %s", duration(measureTime.Milliseconds())).
		WithRemedy("describe fewer columns, or use penstock stats or penstock verify, which wait longer")
}

// measuredAnew is why a measurement ends when its viewer begins another one.
func measuredAnew() error {
	return fault.New(fault.Conflict, "another page of this viewer measures now, and only one can").
		WithRemedy("wait for that page, and load this one again")
}

// measureStep says how far a measurement is.
type measureStep struct{ Read, All int64 }

// measureCall is a call that takes long. It reports how far it is.
type measureCall[R any] func(ctx context.Context, report func(progress.Message)) (R, error)

// measurement is such a call that has begun.
type measurement[R any] struct {
	ctx   context.Context //nolint:containedctx // of the call
	began time.Time
	first measureStep      // zero: it has not been made
	made  chan measureStep // the newest one
	done  chan struct{}    // closed at the end; then the others are set
	found R
	err   error
	ended time.Time
}

// measure begins a call.
func measure[R any](ctx context.Context, call measureCall[R]) *measurement[R] {
	m := &measurement[R]{ctx: ctx, began: time.Now(), made: make(chan measureStep, 1), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.found, m.err = call(ctx, func(at progress.Message) {
			select {
			case m.made <- measureStep{at.RowsRead, at.OfRowsRead}:
			default: // the browser is slow, and the next message says more
			}
		})
		m.ended = time.Now()
	}()
	return m
}

// inParts prepares an answer for a page that is sent while a measurement runs. It returns the function that sends what is written.
func inParts(w http.ResponseWriter) (flush func()) {
	to := http.NewResponseController(w)
	// Both deadlines of the connection are for pages that are sent at once. An error means that the connection has none.
	_ = to.SetReadDeadline(time.Time{})
	_ = to.SetWriteDeadline(time.Now().Add(measureTime + callTime))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // so that proxies pass parts on
	return func() { _ = to.Flush() }
}

// begun waits until the measurement has made progress or has ended, or for firstTime. It returns the error of a measurement that has failed.
func (m *measurement[R]) begun() error {
	first := time.NewTimer(firstTime)
	defer first.Stop()
	select {
	case m.first = <-m.made:
	case <-m.done:
		return m.failure()
	case <-first.C:
	}
	return nil
}

// failure returns why a measurement that has ended has failed; nil if it has not.
func (m *measurement[R]) failure() error {
	if cause, ok := errors.AsType[*fault.Error](context.Cause(m.ctx)); ok && m.err != nil {
		return cause
	}
	return m.err
}

// stop ends the measurement, and waits for its end.
func (m *measurement[R]) stop(cancel func()) {
	cancel()
	<-m.done
}

// steps returns how far the measurement is, until it ends. Before each wait, the page is sent as far as it is written.
func (m *measurement[R]) steps(flush func()) iter.Seq[measureStep] {
	return func(yield func(measureStep) bool) {
		if m.first != (measureStep{}) && !yield(m.first) {
			return
		}
		for {
			flush()
			select {
			case step := <-m.made:
				if !yield(step) {
					return
				}
			case <-m.done:
				return
			}
		}
	}
}
