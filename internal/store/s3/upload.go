package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
)

const (
	// firstPart is the size of the first thousand parts. Some stores want all parts of a
	// file to have one size.
	firstPart = 8 << 20
	// partsOfOneSize is how many consecutive parts have the same size; the parts that follow are
	// twice as large.
	partsOfOneSize = 1000
	// maxParts is the maximum number of parts of a file in the protocol.
	maxParts = 10_000
	// maxBuffers bounds the number of parts that an upload holds in memory: the part that is being
	// filled, and the parts in flight.
	maxBuffers = 4
	// firstBuffer is the minimum initial size of the first part's buffer. The buffer grows as
	// needed, so that small files need little memory.
	firstBuffer = 64 << 10
)

// errAborted ends the parts in flight of an upload that is discarded.
var errAborted = errors.New("the upload was aborted")

var _ store.Uploader = (*Store)(nil)

// partSize returns the size of a part, by its number from 1.
func partSize(number int) int { return firstPart << ((number - 1) / partsOfOneSize) }

// upload is a file that is being written. A file of one part is created by one request. For a
// longer file, each part is sent as soon as it is full and more bytes follow, several parts at a
// time.
type upload struct {
	store   *Store
	file    *object
	reserve store.Reserve
	mark    string // a random text in the metadata of the file, by which the file is recognized
	// life is the context of the parts in flight, since these outlive the calls that send them. It
	// ends when a part fails, and when the upload ends.
	life   context.Context //nolint:containedctx // parts outlive the calls that send them
	end    context.CancelCauseFunc
	flying errgroup.Group

	filling *buffer
	buffers int          // number of buffers: the one being filled, those in flight and those idle
	idle    chan *buffer // buffers whose parts are no longer in flight
	sent    int          // number of parts that were sent
	id      string       // id that the store gave the upload; "" before the second part
	state   uploadState

	mu    sync.Mutex
	parts []types.CompletedPart // parts that the store has accepted, in any order
	hurry context.CancelFunc    // ends the wait for memory; nil if no call waits
}

// uploadState is the state of an upload.
type uploadState int

const (
	uploadOpen     uploadState = iota
	uploadOver                 // a call has failed, or the upload was aborted
	uploadComplete             // the file exists
)

// buffer is the memory of one part.
type buffer struct {
	content []byte // grows up to its capacity, which is reserved
	held    *release.Handle
}

// Begin implements store.Uploader. It makes no request.
func (s *Store) Begin(ctx context.Context, location string, reserve store.Reserve) (store.Upload, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bucket, key, err := split(location)
	if err != nil {
		return nil, err
	}
	if reserve == nil {
		reserve = func(context.Context, int64) (*release.Handle, error) { return nil, nil }
	}
	u := s.newUpload(&object{store: s, location: location, bucket: bucket, key: key, does: writes})
	u.reserve, u.idle = reserve, make(chan *buffer, maxBuffers)
	u.life, u.end = context.WithCancelCause(context.WithoutCancel(ctx))
	u.flying.SetLimit(maxBuffers)
	return u, nil
}

// newUpload returns an upload that can create a file of one part.
func (s *Store) newUpload(file *object) *upload {
	return &upload{store: s, file: file, mark: rand.Text()}
}

// failure returns the error of the first part that failed, or nil.
func (u *upload) failure() error { return context.Cause(u.life) }

// Location implements store.Upload.
func (u *upload) Location() string { return u.file.location }

// Write implements store.Upload. It copies the bytes.
func (u *upload) Write(ctx context.Context, from *memory.Buffer) error {
	if err := u.next(ctx); err != nil {
		return err
	}
	for p := from.Bytes(); len(p) > 0; {
		if err := u.makeRoom(ctx, len(p)); err != nil {
			u.state = uploadOver
			return err
		}
		b := u.filling
		n := min(len(p), cap(b.content)-len(b.content))
		b.content = append(b.content, p[:n]...)
		p = p[n:]
	}
	return nil
}

// next reports whether another call may be made.
func (u *upload) next(ctx context.Context) error {
	if u.state != uploadOpen {
		return store.Ended(u.file.location)
	}
	if ctx.Err() != nil {
		u.state = uploadOver
		return context.Cause(ctx)
	}
	return nil
}

// makeRoom makes room for at least one of n bytes in the buffer that is being filled. A full buffer
// is sent only now, when more bytes follow, because its part could have been the whole file.
func (u *upload) makeRoom(ctx context.Context, n int) error {
	if b := u.filling; b != nil {
		switch {
		case len(b.content) < cap(b.content):
			return nil
		case cap(b.content) < partSize(u.sent+1):
			return u.grow(ctx, n)
		}
		if err := u.send(ctx); err != nil {
			return err
		}
	}
	return u.take(ctx, n)
}

// Finish implements store.Upload.
func (u *upload) Finish(ctx context.Context) error {
	if err := u.next(ctx); err != nil {
		return err
	}
	u.state = uploadOver
	if err := u.create(ctx); err != nil {
		return err
	}
	u.state = uploadComplete
	u.free()
	u.end(nil)
	return nil
}

// create creates the file from the parts that were written.
func (u *upload) create(ctx context.Context) error {
	if u.id == "" {
		return u.putWhole(ctx)
	}
	if err := u.send(ctx); err != nil {
		return err
	}
	if err := u.drain(ctx); err != nil {
		return err
	}
	return u.complete(ctx)
}

// Abort implements store.Upload.
func (u *upload) Abort(ctx context.Context) error {
	if u.state == uploadComplete {
		return nil
	}
	u.state = uploadOver
	u.end(errAborted)
	_ = u.flying.Wait() // does not take long, since each part ends when life ends
	u.free()
	if u.id == "" {
		return nil
	}
	err := u.store.discard(ctx, u.file.location, u.id)
	if err == nil {
		u.id = ""
	}
	return err
}

// discard removes an unfinished upload from the store, if it still exists.
func (s *Store) discard(ctx context.Context, location, id string) error {
	return s.remove(ctx, location, func(ctx context.Context, o *object) error {
		_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &o.bucket, Key: &o.key, UploadId: &id}, s.in(o.bucket))
		if codeOf(err) == "NoSuchUpload" {
			return nil
		}
		return err
	})
}

// tooLong returns the error for a file that is larger than the protocol allows.
func (u *upload) tooLong() error {
	return fault.New(fault.Invalid, "file %s needs more than %d parts", u.file.location, maxParts).In("", u.file.location).
		WithRemedy("write smaller files")
}
