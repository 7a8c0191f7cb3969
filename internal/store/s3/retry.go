package s3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
)

const (
	// maxTries bounds the number of requests of one read or write, and maxSilent the number of
	// these requests that may end because the store was silent.
	maxTries, maxSilent = 8, 3
	// Before the second try, there is a random wait of up to minWait. This limit doubles before
	// each later try, up to maxWait.
	minWait, maxWait = 200 * time.Millisecond, 10 * time.Second
	// maxAfter bounds the delay before a retry for which a store asks.
	maxAfter = 30 * time.Second
	// minProgress is how many bytes must arrive within the timeout for silence, unless the body
	// ends before. So a store whose body arrives too slowly counts as silent.
	minProgress = 64 << 10
)

// errSilent is the error of a request that was given up because no data arrived.
var errSilent = errors.New("the store was silent for too long")

// brokenError describes a response that does not fit the request.
type brokenError struct{ what string }

func (e brokenError) Error() string { return "it gave " + e.what }

func broken(format string, args ...any) error { return brokenError{fmt.Sprintf(format, args...)} }

// try is one request of a read or write.
type try struct {
	operation Operation
	bytes     int64
	silence   time.Duration
	timer     *time.Timer // cancels the request
	now       func() time.Time
	begun     time.Time
	first     time.Duration // from begun to the first bytes that arrived; 0: none arrived
	since     int           // number of bytes that arrived since timer was set
}

// progress counts bytes that arrived.
func (t *try) progress(n int) {
	if t.bytes == 0 {
		t.first = t.now().Sub(t.begun)
	}
	t.bytes += int64(n)
	if t.since += n; t.since >= minProgress {
		t.since = 0
		t.timer.Reset(t.silence)
	}
}

// triesMade counts the tries of one read or write.
type triesMade struct {
	made, silent int
	renewed      bool // whether the credentials were renewed
	moved        bool // whether the bucket's region was corrected
}

// retry calls once, and calls it again after a failure as long as that may help. Each call of once
// must continue where the previous call failed.
func (s *Store) retry(ctx context.Context, o *object, once func(context.Context, *try) error) error {
	var made triesMade
	for {
		made.made++
		err := s.once(ctx, o, made.made > 1, once)
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
		asleep := s.now()
		err = backoff.Sleep(ctx, wait)
		waits.Read(ctx, waits.Reads{Delayed: s.now().Sub(asleep)})
		if err != nil {
			return err
		}
	}
}

// once makes one try. It cancels a try in which no data arrives for too long.
func (s *Store) once(ctx context.Context, o *object, again bool, do func(context.Context, *try) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &try{silence: s.silence, timer: time.AfterFunc(s.silence, func() { cancel(errSilent) }), now: s.now, begun: s.now()}
	defer t.timer.Stop()
	part := trace.Of(ctx).Begin(trace.Request)
	err := do(inner, t)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(inner), errSilent) {
		err = errSilent
	}
	if part != nil {
		part.End(err, trace.Attribute{Key: trace.Store, Text: name}, trace.Attribute{Key: trace.Operation, Text: string(t.operation)}, trace.FileOf(o.location),
			trace.Attribute{Key: trace.Bytes, Number: t.bytes}, trace.Attribute{Key: trace.Outcome, Text: string(outcomeOf(ctx, err))})
	}
	took := s.now().Sub(t.begun)
	if s.options.Observe != nil {
		s.options.Observe(Request{
			Store: name, Operation: t.operation, Outcome: outcomeOf(ctx, err), Bytes: t.bytes, Again: again, Took: took,
		})
	}
	waits.Read(ctx, t.reads(took, err))
	return err
}

// reads counts the request for its stream. A request without data, such as one that failed, waited for the first byte only.
func (t *try) reads(took time.Duration, err error) waits.Reads {
	out := waits.Reads{Requests: 1, Bytes: t.bytes, Took: took, First: t.first}
	if t.bytes == 0 {
		out.First = took
	}
	if err != nil {
		out.Failed = 1
	}
	return out
}

func (s *Store) now() time.Time {
	if s.options.Clock == nil {
		return time.Time{}
	}
	return s.options.Clock()
}

// again reports whether to retry after a failure, and how long to wait before the retry.
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
	case !f.passing || made.made >= maxTries || made.silent >= maxSilent:
		return 0, false
	}
	limit := min(minWait<<(made.made-1), maxWait)
	wait := time.Duration(s.options.Random() * float64(limit))
	return max(wait, min(f.after, maxAfter)), true
}

// fault returns the error for the caller of the read or write, after the given number of tries.
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
	e := fault.New(fault.Unavailable, "the store%s %s %s%s: %w", at, o.does.failed(f.outcome), o.location, times, f.cause).In("", o.location)
	e.RetryAfter = f.after
	return e.WithRemedy("%s", f.remedy(o.does))
}
