package parquet

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/store"
)

const (
	// gapBytes is how far apart two column chunks may lie to be read in one
	// request: less than a round trip to an object store is worth.
	gapBytes = 64 << 10
	// regionBytes bounds one request, so that several can run side by side and
	// a wide row group does not need one huge piece of memory.
	regionBytes = 32 << 20
)

// source is what the decoder reads from: the chunks of one row group, loaded
// before it starts, held in memory of the row group's allowance. It remembers the
// first error of storage, because the decoder loses the cause of some.
type source struct {
	ctx     context.Context //nolint:containedctx // the decoder's interface has no room for it; a source lives for one reader
	obj     store.Object
	scratch *allowance
	regions []region
	pos     int64

	mu  sync.Mutex
	err error
}

// region is a loaded piece of the file.
type region struct {
	span
	content []byte
}

// span is a range of the file's bytes.
type span struct{ start, length int64 }

func (s span) end() int64 { return s.start + s.length }

// load replaces the regions by ones that cover the spans, in as few reads as
// the gaps between them allow.
func (s *source) load(spans []span) error {
	s.unload()
	for _, want := range merge(spans) {
		content, err := s.read(want)
		if err != nil {
			return err
		}
		s.regions = append(s.regions, region{span: want, content: content})
	}
	return nil
}

// read returns a range of the file in memory of the row group's allowance, for the
// caller to free. Memory of a read that was left behind is freed, and its charge
// given back, when that returns.
func (s *source) read(want span) ([]byte, error) {
	content := s.scratch.Allocate(int(want.length))
	if err := s.obj.ReadAt(s.ctx, content, want.start); err != nil {
		store.WhenReturned(err, s.scratch.leave(content))
		return nil, s.note(err)
	}
	return content, nil
}

// merge sorts spans and joins those that lie close to each other.
func merge(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var out []span
	for _, next := range spans {
		if len(out) > 0 {
			last := &out[len(out)-1]
			joined := max(last.end(), next.end()) - last.start
			if next.start-last.end() <= gapBytes && (joined <= regionBytes || next.end() <= last.end()) {
				last.length = joined
				continue
			}
		}
		out = append(out, next)
	}
	return out
}

// add makes content, which is memory of the row group's allowance, readable behind
// the end of the file, and returns where.
func (s *source) add(content []byte) (at int64) {
	at = s.obj.Size()
	for _, r := range s.regions {
		at = max(at, r.end())
	}
	s.regions = append(s.regions, region{span: span{start: at, length: int64(len(content))}, content: content})
	return at
}

// unload frees the regions; nothing may read them any more.
func (s *source) unload() {
	for _, r := range s.regions {
		s.scratch.Free(r.content)
	}
	s.regions = nil
}

// loaded returns the loaded bytes of a span, or nil.
func (s *source) loaded(want span) []byte {
	for _, r := range s.regions {
		if want.start >= r.start && want.end() <= r.end() {
			at := want.start - r.start
			return r.content[at : at+want.length]
		}
	}
	return nil
}

// ReadAt implements io.ReaderAt for the decoder.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if content := s.loaded(span{start: off, length: int64(len(p))}); content != nil {
		return copy(p, content), nil
	}
	// Files of a few old writers have chunks that are longer than they say. The
	// decoder uses p again also after a failure, so that no read gets it.
	content, err := s.read(span{start: off, length: int64(len(p))})
	if err != nil {
		return 0, err
	}
	defer s.scratch.Free(content)
	return copy(p, content), nil
}

// Seek implements io.Seeker, of which the decoder needs the interface alone.
func (s *source) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += s.pos
	case io.SeekEnd:
		offset += s.obj.Size()
	default:
		return 0, errors.New("unknown whence")
	}
	s.pos = offset
	return offset, nil
}

func (s *source) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

// failure returns the first error of storage, or nil.
func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
