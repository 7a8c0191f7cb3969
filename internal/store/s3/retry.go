package s3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

const (
	// mostTries bounds the requests of one read, and mostSilent those of them that
	// ended in silence.
	mostTries, mostSilent = 8, 3
	// leastWait and mostWait bound the random while before the next try: at most the
	// first of them before the second try, twice as long before each one after.
	leastWait, mostWait = 200 * time.Millisecond, 10 * time.Second
	// mostAfter bounds what a store may ask us to wait for.
	mostAfter = 30 * time.Second
	// leastProgress is what has to come within the time of silence, where so much is
	// still to come: a body that trickles is no progress.
	leastProgress = 64 << 10
)

// errSilent is why a request was given up.
var errSilent = errors.New("the store was silent for too long")

// brokenError is a response that is not what was asked for.
type brokenError struct{ what string }

func (e brokenError) Error() string { return "it gave " + e.what }

func broken(format string, args ...any) error { return brokenError{fmt.Sprintf(format, args...)} }

// try is one request of a read.
type try struct {
	operation Operation
	bytes     int64
	silence   time.Duration
	timer     *time.Timer // ends the request
	since     int         // bytes that came since it was set
}

// progress counts bytes that came.
func (t *try) progress(n int) {
	t.bytes += int64(n)
	if t.since += n; t.since >= leastProgress {
		t.since = 0
		t.timer.Reset(t.silence)
	}
}

// triesMade counts those of one read.
type triesMade struct {
	made, silent int
	renewed      bool // credentials were asked for anew
	moved        bool // the bucket has said its region
}

// retry asks once, and again where that may help. Once goes on where the try before it
// broke.
func (s *Store) retry(ctx context.Context, o *object, once func(context.Context, *try) error) error {
	var made triesMade
	for {
		made.made++
		err := s.once(ctx, made.made > 1, once)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f := o.judge(err)
		wait, again := s.again(ctx, &made, o, f)
		if !again {
			return f.fault(o, made.made)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// once makes one try, which ends when nothing comes for too long.
func (s *Store) once(ctx context.Context, again bool, do func(context.Context, *try) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &try{silence: s.silence, timer: time.AfterFunc(s.silence, func() { cancel(errSilent) })}
	defer t.timer.Stop()
	begun := s.now()
	err := do(inner, t)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(inner), errSilent) {
		err = errSilent
	}
	if s.options.Observe != nil {
		s.options.Observe(Request{
			Operation: t.operation, Outcome: outcomeOf(ctx, err), Bytes: t.bytes, Again: again, Took: s.now().Sub(begun),
		})
	}
	return err
}

func (s *Store) now() time.Time {
	if s.options.Clock == nil {
		return time.Time{}
	}
	return s.options.Clock()
}

// again says whether a read is to be tried again after a failure, and when.
func (s *Store) again(ctx context.Context, made *triesMade, o *object, f failure) (time.Duration, bool) {
	if f.outcome == Silent {
		made.silent++
	}
	switch {
	case f.region != "" && !made.moved:
		made.moved = true
		s.regions.Store(o.bucket, f.region)
		return 0, true
	case f.expired && !made.renewed:
		made.renewed = true
		s.expired(ctx, f.key)
		return 0, true
	case !f.passing || made.made >= mostTries || made.silent >= mostSilent:
		return 0, false
	}
	most := min(leastWait<<(made.made-1), mostWait)
	wait := time.Duration(s.options.Random() * float64(most))
	return max(wait, min(f.after, mostAfter)), true
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fault is the error that a reader gets.
func (f failure) fault(o *object, tries int) error {
	if f.err != nil {
		return f.err
	}
	times := ""
	if tries > 1 {
		times = fmt.Sprintf(", %d times", tries)
	}
	at := ""
	if endpoint := o.store.options.Settings.Endpoint; endpoint != "" {
		at = " at " + fault.RedactURI(endpoint)
	}
	e := fault.New(fault.Unavailable, "the store%s %s file %s%s: %w", at, f.did(o.writes), o.location, times, f.cause).In("", o.location)
	e.RetryAfter = f.after
	return e.WithRemedy("%s", f.remedy(o.writes))
}
