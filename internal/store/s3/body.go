package s3

import (
	"errors"
	"io"
	"sync"
)

// errTaken is the error for reading a body after its request has ended.
var errTaken = errors.New("the request has ended")

// body is the body of one request. The transport may still read a body for a moment after its
// request has failed. Once take has returned, the transport can no longer read the body's memory,
// which may then be used again. Bytes that the transport reads count as progress of the request.
type body struct {
	try *try

	mu      sync.Mutex
	content []byte
	at      int
	since   int // number of bytes that were read since the request's timer was set
	taken   bool
}

var _ io.ReadSeeker = (*body)(nil)

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.taken:
		return 0, errTaken
	case b.at == len(b.content):
		return 0, io.EOF
	}
	n := copy(p, b.content[b.at:])
	b.at += n
	if b.since += n; b.since >= minProgress {
		b.since = 0
		b.try.timer.Reset(b.try.silence)
	}
	return n, nil
}

// Seek implements io.Seeker.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += int64(b.at)
	case io.SeekEnd:
		offset += int64(len(b.content))
	}
	if offset < 0 || offset > int64(len(b.content)) {
		return 0, errors.New("a body has no such position")
	}
	b.at = int(offset)
	return offset, nil
}

// take takes the memory away from the body: later reads fail with errTaken.
func (b *body) take() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken, b.content, b.at = true, nil, 0
}
