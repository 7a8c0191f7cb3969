package parquet

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/store"
)

const (
	// DefaultGap is the default of Options.Gap: less than a round trip to an object
	// store is worth.
	DefaultGap = 64 << 10
	// DefaultReadSize is the default of Options.ReadSize.
	DefaultReadSize = 32 << 20
	// mostReads is how many reads of one row group run side by side.
	mostReads = 8
)

// source is what the decoder reads from: the chunks of one row group, loaded
// before it starts, held in memory of the row group's allowance, or in memory that
// was fetched into ahead. It remembers the first error of storage, because the decoder
// loses the cause of some.
type source struct {
	ctx     context.Context //nolint:containedctx // the decoder's interface has no room for it; a source lives for one reader
	file    *File
	scratch *allowance
	regions []region
	fetched *fetch // that regions are of; nil: none
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

// load replaces the regions by ones that cover the spans, in as few reads as the gaps
// between them allow.
func (s *source) load(spans []span) error {
	s.unload()
	wanted := s.file.merge(spans)
	s.regions = make([]region, len(wanted))
	for i, want := range wanted {
		s.regions[i] = region{span: want, content: s.scratch.Allocate(int(want.length))}
	}
	errs := s.file.readAll(s.ctx, s.regions)
	if errs == nil {
		return nil
	}
	for i, err := range errs {
		if err != nil {
			// Memory of a read that was left behind is freed, and its charge given back,
			// when that returns.
			store.WhenReturned(err, s.scratch.leave(s.regions[i].content))
			s.regions[i].content = nil
			_ = s.note(err)
		}
	}
	s.unload()
	return s.failure()
}

// readAll fills regions, several side by side. It returns what went wrong with each of
// them, or nil. What went wrong first comes first, and its region with it.
func (f *File) readAll(ctx context.Context, regions []region) []error {
	if len(regions) == 1 {
		if err := f.readAt(ctx, regions[0].content, regions[0].start); err != nil {
			return []error{err}
		}
		return nil
	}
	errs := make([]error, len(regions))
	var first atomic.Int64 // of errs, from 1: others may have ended with it
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(mostReads)
	for i, r := range regions {
		group.Go(func() error {
			if errs[i] = f.readAt(inner, r.content, r.start); errs[i] != nil {
				first.CompareAndSwap(0, int64(i)+1)
			}
			return errs[i]
		})
	}
	if group.Wait() == nil {
		return nil
	}
	at := first.Load() - 1
	errs[0], errs[at] = errs[at], errs[0]
	regions[0], regions[at] = regions[at], regions[0]
	return errs
}

// read returns a range of the file in memory of the row group's allowance, for the
// caller to free. Memory of a read that was left behind is freed, and its charge
// given back, when that returns.
func (s *source) read(want span) ([]byte, error) {
	content := s.scratch.Allocate(int(want.length))
	if err := s.file.readAt(s.ctx, content, want.start); err != nil {
		store.WhenReturned(err, s.scratch.leave(content))
		return nil, s.note(err)
	}
	return content, nil
}

// merge sorts spans and joins those that lie close to each other: a run of chunks whose
// gaps are within the limit is one read, unless it is longer than a read may be. Then it
// is several, each of whole chunks; a chunk is never divided.
func (f *File) merge(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var out []span
	for _, next := range spans {
		if len(out) > 0 {
			last := &out[len(out)-1]
			joined := max(last.end(), next.end()) - last.start
			if next.start-last.end() <= f.gap && (joined <= f.readSize || next.end() <= last.end()) {
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
	at = s.file.size
	for _, r := range s.regions {
		at = max(at, r.end())
	}
	s.regions = append(s.regions, region{span: span{start: at, length: int64(len(content))}, content: content})
	return at
}

// unload frees the regions; nothing may read them any more.
func (s *source) unload() {
	for _, r := range s.regions {
		if s.fetched == nil || !s.fetched.has(r.content) {
			s.scratch.Free(r.content)
		}
	}
	s.regions = nil
	if s.fetched != nil {
		s.fetched.release()
		s.fetched = nil
	}
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
		offset += s.file.size
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
