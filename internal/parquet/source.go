package parquet

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/waits"
)

const (
	// DefaultGap is the default of Options.Gap. Reading so many unused bytes is cheaper than
	// another request to an object store.
	DefaultGap = 64 << 10
	// DefaultReadSize is the default of Options.ReadSize.
	DefaultReadSize = 32 << 20
	// maxParallelReads bounds the concurrent reads of one row group.
	maxParallelReads = 8
)

// source is the io.ReaderAt of the library: the column chunks of one row group, loaded
// before decoding starts, in scratch memory or in memory that was filled ahead. It keeps
// the first storage error, because the library loses the cause of some errors.
type source struct {
	ctx     context.Context //nolint:containedctx // the library's interface has no context; a source lives for one reader
	file    *File
	scratch *charged.Allocator
	regions []region
	fetched *fetch // owner of the regions; nil: they are in scratch memory
	giveUp  func() bool
	pos     int64

	mu  sync.Mutex
	err error
}

// region is a loaded range of the file.
type region struct {
	span
	content []byte
	memory  *memory.Buffer // the memory of content; nil: content is part of another region
}

// newRegion allocates a region for its owner to release.
func newRegion(of span, mem memory.Allocator) region {
	content := mem.Allocate(int(of.length))
	return region{span: of, content: content, memory: memory.NewBufferWithAllocator(content, mem)}
}

func (r region) release() {
	if r.memory != nil {
		r.memory.Release()
	}
}

// span is a range of the file's bytes.
type span struct{ start, length int64 }

func (s span) end() int64 { return s.start + s.length }

// load replaces the regions by new ones for the wanted spans, and reads these.
func (s *source) load(wanted []span) error {
	s.release()
	s.regions = make([]region, len(wanted))
	for i, want := range wanted {
		s.regions[i] = newRegion(want, s.scratch)
	}
	end := waits.Begin(s.ctx, waits.Storage)
	errs := s.file.readAll(s.ctx, s.regions)
	end()
	if errs == nil {
		return nil
	}
	for i, err := range errs {
		if err != nil {
			s.scratch.Detach(s.regions[i].content) // an abandoned read may still write to it
			_ = s.note(err)
		}
	}
	s.release()
	return s.failure()
}

// use replaces the regions by the regions of a fetch whose bytes the reader has taken.
func (s *source) use(f *fetch) {
	s.release()
	s.regions, s.fetched = slices.Clone(f.regions), f
	for _, r := range s.regions {
		r.memory.Retain()
	}
}

// readAll fills regions with concurrent reads. If any read fails, it returns one error for each
// region, nil for those that were read. The region whose read failed first, and its error, are
// moved to the front.
func (f *File) readAll(ctx context.Context, regions []region) []error {
	if len(regions) == 1 {
		if err := f.readAt(ctx, regions[0].memory, regions[0].start); err != nil {
			return []error{err}
		}
		return nil
	}
	errs := make([]error, len(regions))
	var first atomic.Int64 // index of the first error, plus 1; the other errors may be consequences of the first one
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelReads)
	for i, r := range regions {
		group.Go(func() error {
			if errs[i] = f.readAt(inner, r.memory, r.start); errs[i] != nil {
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

// read reads a range of the file into scratch memory, for the caller to release.
func (s *source) read(want span) (region, error) {
	defer waits.Begin(s.ctx, waits.Storage)()
	r := newRegion(want, s.scratch)
	if err := s.file.readAt(s.ctx, r.memory, want.start); err != nil {
		s.scratch.Detach(r.content)
		r.release()
		return region{}, s.note(err)
	}
	return r, nil
}

// wanted returns the ranges to read so that all spans are covered, as few as Gap and ReadSize
// allow, and the total size of these ranges in bytes.
func (f *File) wanted(spans []span) (wanted []span, bytes int64) {
	wanted = f.merge(spans)
	for _, s := range wanted {
		bytes += s.length
	}
	return wanted, bytes
}

// merge sorts spans and joins neighbors whose distance is at most Gap into reads of at most
// ReadSize bytes. A chunk is never split, so a chunk larger than ReadSize is read on its own.
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

// add makes content readable at an offset past the end of the file and past all regions that were
// added before, and returns that offset. content is scratch memory that the source frees or, if
// alias is set, a part of another region.
func (s *source) add(content []byte, alias bool) (at int64) {
	at = s.file.size
	for _, r := range s.regions {
		at = max(at, r.end())
	}
	r := region{span: span{start: at, length: int64(len(content))}, content: content}
	if !alias {
		r.memory = memory.NewBufferWithAllocator(content, s.scratch)
	}
	s.regions = append(s.regions, r)
	return at
}

// release frees the regions. Nothing may read them afterwards.
func (s *source) release() {
	s.free()
	s.leave()
}

// free releases the regions.
func (s *source) free() {
	for _, r := range s.regions {
		r.release()
	}
	s.regions = nil
}

// leave makes the reader leave the fetch whose regions it used.
func (s *source) leave() {
	if s.fetched != nil {
		s.fetched.release(s)
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
	if off >= s.file.size {
		return s.readAdded(p, off)
	}
	// Chunks of a few old writers are longer than the footer says. The library reuses p
	// after an error, so a read that may be abandoned must not get it.
	r, err := s.read(span{start: off, length: int64(len(p))})
	if err != nil {
		return 0, err
	}
	defer r.release()
	return copy(p, r.content), nil
}

// readAdded reads a range that spans several regions that add has added.
func (s *source) readAdded(p []byte, off int64) (n int, err error) {
	for _, r := range s.regions {
		if at := off + int64(n); at >= r.start && at < r.end() {
			n += copy(p[n:], r.content[at-r.start:])
		}
	}
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

// Seek implements io.Seeker, which the library requires and does not use to read.
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
	s.err = cmp.Or(s.err, err)
	return err
}

// failure returns the first storage error, or nil.
func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
