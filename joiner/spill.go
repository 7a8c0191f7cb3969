package joiner

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// Sliced is a build side that does not fit in memory: its rows lie on local
// disk, in slices by a hash of their key, each of them small enough to be a
// [BuildSide] for a while. It never changes, any number of joins may use it at once,
// and it is counted by reference.
//
// A join of it reads the keys of its training rows first. Slice after slice it
// loads the side, asks it about the training rows of the slice, and writes down
// in their order what it answers, with the staging rows that are referred to.
// The joined stream then reads those notes side by side, a slice's next note
// for each training row, so that training rows keep their order.
type Sliced struct {
	parts   *Parts
	spec    BuildSpec // with the positions of the stored columns
	made    shape
	zero    *array.Struct // what a dictionary begins with: row 0
	opts    Options
	how     Spilling
	spilled *atomic.Int64
}

// Spill reads a build side whole, as Build does, and writes it to local
// disk. The caller releases what it returns; after an error nothing is held.
// Rows, references and errors of its joins are those of the side that Build
// would have made, except that dictionaries hold the rows that a batch refers
// to. A custom strategy cannot be sliced: it is exhausted.
func Spill(ctx context.Context, in Input, spec BuildSpec, opts Options, how Spilling) (*Sliced, error) {
	s, err := spill(ctx, in, spec, opts, how)
	return s, fault.Op(err, "write the build side %s to local disk", spec.Name)
}

func spill(ctx context.Context, in Input, spec BuildSpec, opts Options, how Spilling) (*Sliced, error) {
	if spec.Custom != nil {
		return nil, fault.New(fault.Exhausted, "%s does not fit in memory, and its custom strategy needs it whole", spec.Name).
			WithRemedy("raise the server's memory budget, take the custom strategy away, or write the staging table with more buckets")
	}
	s := &Sliced{opts: opts, how: how, spilled: &atomic.Int64{}}
	d := &dividing{in: in}
	var hashes *encoder
	var clock *timeColumn
	d.begin = func(schema *arrow.Schema) error {
		// The builder that Build would use knows what must be there.
		b := &builder{in: in, spec: spec}
		if err := b.plan(schema); err != nil {
			return err
		}
		s.made, hashes, clock = b.shape(), newEncoder(b.encoder.types), b.time
		_, at := b.lists()
		d.at = slices.Compact(slices.Sorted(slices.Values(at)))
		return nil
	}
	parts := how.slices(opts)
	d.of = func(b arrow.RecordBatch, keys []arrow.Array, to []int32) error {
		slice(hashes.encode(keys), parts, to, nil)
		if clock != nil {
			clock.load(b.Column(clock.at))
			without(clock.times.null, to)
		}
		return nil
	}
	var err error
	if s.parts, err = d.divide(ctx, parts, opts, how); err != nil {
		return nil, err
	}
	s.spilled.Store(s.parts.Bytes())
	s.place(spec, d.at)
	if s.zero, err = s.first(ctx); err != nil {
		s.parts.Release()
		return nil, err
	}
	return s, nil
}

// place turns positions of the stream into positions of the stored columns.
func (s *Sliced) place(spec BuildSpec, at []int) {
	moved := func(positions []int) []int {
		out := make([]int, len(positions))
		for i, p := range positions {
			out[i] = slices.Index(at, p)
		}
		return out
	}
	s.parts.in.Key, s.parts.in.Columns = moved(s.parts.in.Key), moved(s.parts.in.Columns)
	s.spec = spec
	s.spec.OrderBy = slices.Clone(spec.OrderBy)
	for i, o := range spec.OrderBy {
		s.spec.OrderBy[i].Column = slices.Index(at, o.Column)
	}
	if spec.Time != nil {
		s.spec.Time = new(slices.Index(at, *spec.Time))
	}
}

// Bounds of the number of slices.
const (
	fewestSlices  = 2
	usualSlices   = 32
	mostSlices    = 256
	slicePerSide  = 3 // a slice takes this part of the working memory: beside its rows lie a copy of a column, and an index
	unknownAmount = 0
)

// slices returns how many slices a side is written in.
func (s Spilling) slices(opts Options) int {
	if s.Bytes <= unknownAmount {
		return usualSlices
	}
	return int(min(max(s.Bytes/max(s.memory(opts.Budget)/slicePerSide, 1)+1, fewestSlices), mostSlices))
}

// slice says which of some slices each key belongs to; a null key belongs to
// none. The hash shares no bits with that of an index, nor with Iceberg's. If
// check is not nil, it gets other bits of the hash.
func slice(keys vector, parts int, to, check []int32) {
	for i := range to {
		var hash uint64
		if keys.ends == nil {
			hash = hashInt(keys.ints[i])
		} else {
			hash = hashBytes(keys.arena[keys.ends[i]:keys.ends[i+1]])
		}
		hash = mix(hash^seedC, seedA)
		to[i] = int32(home(hash, parts))
		if check != nil {
			check[i] = int32(uint32(hash))
		}
	}
	without(keys.null, to)
}

// without takes the rows that are marked out of every part.
func without(null []bool, to []int32) {
	for i, n := range null {
		if n {
			to[i] = -1
		}
	}
}

// first makes row 0 of the dictionaries, as the side without rows has it.
func (s *Sliced) first(ctx context.Context) (*array.Struct, error) {
	side, err := build(ctx, s.parts.input(nil), s.spec, s.opts, maxRows)
	if err != nil {
		return nil, err
	}
	defer side.Release()
	side.dictionary.Retain()
	return side.dictionary, nil
}

// Rows returns how many staging rows were read.
func (s *Sliced) Rows() int64 { return s.parts.Rows() }

// Spilled returns the bytes that were written to local disk so far, for the
// side and for its joins.
func (s *Sliced) Spilled() int64 { return s.spilled.Load() }

// Retain adds a reference. The caller holds one already.
func (s *Sliced) Retain() { s.parts.Retain() }

// Release gives a reference back. It may be called from any goroutine. The
// last one frees the disk.
func (s *Sliced) Release() {
	if s.parts.release() {
		s.zero.Release()
		s.zero = nil
	}
}

// ProbedBy returns the side for one join, with a reference of its own. rows gives
// the training rows of that join once more, in the same order, with their key
// columns (Key) and, if the rule has a time, the time column (the one of
// Columns). The join asks for them when it asks for the side.
func (s *Sliced) ProbedBy(rows Input) Probeable {
	s.Retain()
	return &slicedSide{Sliced: s, training: rows}
}

// slicedSide is a Sliced as one join sees it.
type slicedSide struct {
	*Sliced
	training Input
}

func (s *slicedSide) shape() shape { return s.made }

func (s *slicedSide) ask(ctx context.Context, rule Rule) (matcher, error) {
	n, err := s.note(ctx, s.training, rule)
	if err != nil {
		return nil, fault.Op(err, "look up training rows on local disk")
	}
	return newReplay(ctx, n)
}
