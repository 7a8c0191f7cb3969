package store

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

var _ Uploader = (*Bounded)(nil)

// Begin begins a file. If the caller has stopped waiting when the upload begins, the upload is
// discarded.
func (b *Bounded) Begin(ctx context.Context, location string, reserve Reserve) (Upload, error) {
	m := b.calls.of(location)
	u, _, err := await(ctx, b.calls, m, subject{verb: "begin", location: location}, func(ctx context.Context) (*boundedUpload, error) {
		u, err := b.under.Begin(ctx, location, reserve)
		if err != nil {
			return nil, err
		}
		return &boundedUpload{Upload: u, calls: b.calls, mount: m}, nil
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// boundedUpload is an upload whose calls may be abandoned. The underlying upload runs one call at a
// time. If a call was abandoned, the upload is discarded after the call returns.
type boundedUpload struct {
	Upload
	calls *Calls
	mount *mount

	mu      sync.Mutex
	running int  // running calls, including abandoned ones
	discard bool // whether to discard the upload after the running calls
	over    bool // a call has failed or could not be made
}

func (u *boundedUpload) Write(ctx context.Context, p *memory.Buffer) error {
	pending, err := u.next(ctx, "write", func(ctx context.Context) error { return u.Upload.Write(ctx, p) })
	keepWhile(pending, p)
	return err
}

func (u *boundedUpload) Finish(ctx context.Context) error {
	pending, err := u.next(ctx, "finish", u.Upload.Finish)
	if pending != nil {
		return WithUnknownOutcome(err)
	}
	return err
}

func (u *boundedUpload) Abort(ctx context.Context) error {
	u.mu.Lock()
	u.discard = u.running > 0
	waits := u.discard
	u.mu.Unlock()
	if waits {
		return fault.New(fault.Unavailable, "what was written of file %s is discarded as soon as storage answers", u.Location()).
			In("", u.Location()).WithRemedy("check whether the disk or mount responds")
	}
	ran := false
	pending, err := u.call(ctx, "discard", func(ctx context.Context) error {
		ran = true
		return u.Upload.Abort(ctx)
	})
	if pending == nil && !ran {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.abortLater() //nolint:contextcheck // it outlives the caller
	}
	return err
}

// Close discards an upload whose caller stopped waiting before it began.
func (u *boundedUpload) Close() error { return u.Upload.Abort(context.Background()) }

// next runs a call unless an earlier call has failed.
func (u *boundedUpload) next(ctx context.Context, verb string, do func(context.Context) error) (*Pending, error) {
	if u.over {
		return nil, Ended(u.Location())
	}
	pending, err := u.call(ctx, verb, do)
	u.over = err != nil
	return pending, err
}

// call runs a call of the underlying upload.
func (u *boundedUpload) call(ctx context.Context, verb string, do func(context.Context) error) (*Pending, error) {
	u.mu.Lock()
	u.running++
	u.mu.Unlock()
	_, pending, err := await(ctx, u.calls, u.mount, subject{verb: verb, location: u.Location()}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, do(ctx)
	})
	pending.WhenReturned(u.end)
	return pending, err
}

func (u *boundedUpload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running--
	if u.discard && u.running == 0 {
		u.discard = false
		u.abortLater()
	}
}

// abortLater discards the upload in a separate goroutine. u.mu is held. Its error is not reported,
// since Unfinished lists an upload that remains.
func (u *boundedUpload) abortLater() {
	u.running++
	go func() {
		defer u.end()
		u.mount.slots <- struct{}{}
		defer u.mount.leave()
		_ = u.Upload.Abort(context.Background())
	}()
}
