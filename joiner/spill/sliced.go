package spill

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/joiner"
)

// Sliced holds staging rows that do not fit in memory. The rows are on local disk, divided into
// slices by a hash of their key. A slice should be small enough to be loaded as a
// [joiner.BuildSide]. A Sliced is immutable and reference counted, and any number of joins can use
// it at once.
type Sliced struct {
	parts  *Partitions
	spec   joiner.BuildSpec // with the positions of the stored columns
	schema joiner.Schema
	row0   *array.Struct // row 0 of every dictionary, and nothing else
	opts   Options
}

// Slice reads staging rows like [joiner.Build], and writes them to local disk. The caller releases
// the result; after an error nothing is held. Joins with the result have the same rows and errors
// as joins with the build side that Build would make, but a dictionary holds only the rows to which
// a batch refers. With a custom strategy, which needs all rows in memory, the error is Exhausted.
func Slice(ctx context.Context, in joiner.Input, spec joiner.BuildSpec, opts Options) (*Sliced, error) {
	s, err := slice(ctx, in, spec, opts)
	return s, fault.Op(err, "write the build side %s to local disk", spec.Name)
}

func slice(ctx context.Context, in joiner.Input, spec joiner.BuildSpec, opts Options) (*Sliced, error) {
	if spec.Custom != nil {
		return nil, fault.New(fault.Exhausted, "%s does not fit in memory, and its custom strategy needs all of it", spec.Name).
			WithRemedy("raise the server's memory budget, remove the custom strategy, or write the staging table with more buckets")
	}
	s := &Sliced{opts: opts}
	columns := columnsRead(in, spec)
	by := &keyPartitioner{key: in.Key, time: spec.Time, columns: columns, slices: opts.slices()}
	by.check = func(schema *arrow.Schema) error { return s.setSchema(ctx, schema, in, spec) }
	w := &partitionWriter{in: in, by: by, opts: opts}
	var err error
	if s.parts, err = w.write(ctx, by.slices); err != nil {
		if s.row0 != nil {
			s.row0.Release()
		}
		return nil, err
	}
	s.parts.in.Key, s.parts.in.Columns = moved(in.Key, columns), moved(in.Columns, columns)
	s.spec = movedSpec(spec, columns)
	return s, nil
}

// setSchema builds a build side from a stream without rows, and takes its schema and row 0. If the
// stream's columns do not fit the spec, this fails before any row is read.
func (s *Sliced) setSchema(ctx context.Context, schema *arrow.Schema, in joiner.Input, spec joiner.BuildSpec) error {
	in.Open = func(context.Context) (array.RecordReader, error) {
		return batch.FromFunc(schema, func() (arrow.RecordBatch, error) { return nil, nil }, nil), nil
	}
	built, err := joiner.Build(ctx, in, spec, s.opts.Options)
	if err != nil {
		return err
	}
	defer built.Release()
	s.schema, s.row0 = built.Schema(), built.Dictionary()
	s.row0.Retain()
	return nil
}

// columnsRead returns the positions of all columns that Build reads, in ascending order.
func columnsRead(in joiner.Input, spec joiner.BuildSpec) []int {
	columns := slices.Concat(in.Columns, in.Key)
	for _, o := range spec.OrderBy {
		columns = append(columns, o.Column)
	}
	if spec.Time != nil {
		columns = append(columns, *spec.Time)
	}
	slices.Sort(columns)
	return slices.Compact(columns)
}

// moved converts positions of columns in a stream to positions among the stream's kept columns.
func moved(positions, kept []int) []int {
	out := make([]int, len(positions))
	for i, p := range positions {
		out[i] = slices.Index(kept, p)
	}
	return out
}

// movedSpec returns a spec whose positions are converted like those of moved.
func movedSpec(spec joiner.BuildSpec, kept []int) joiner.BuildSpec {
	spec.OrderBy = slices.Clone(spec.OrderBy)
	for i, o := range spec.OrderBy {
		spec.OrderBy[i].Column = slices.Index(kept, o.Column)
	}
	if spec.Time != nil {
		spec.Time = new(slices.Index(kept, *spec.Time))
	}
	return spec
}

// keyPartitioner divides rows into slices by their keys. It drops rows that match
// nothing.
type keyPartitioner struct {
	key     []int
	time    *int  // nil if rows have no time
	columns []int // to be kept
	slices  int
	check   func(*arrow.Schema) error // called first with the stream's schema; may be nil
	reader  *joiner.KeyReader
}

func (p *keyPartitioner) begin(schema *arrow.Schema) ([]int, error) {
	if p.check != nil {
		if err := p.check(schema); err != nil {
			return nil, err
		}
	}
	var err error
	p.reader, err = joiner.NewKeyReader(schema, p.key, p.time)
	return p.columns, err
}

func (p *keyPartitioner) assign(b arrow.RecordBatch, parts []int32) error {
	p.reader.Read(b).Slice(p.slices, parts, nil)
	return nil
}

// Bytes returns the bytes of the rows on disk.
func (s *Sliced) Bytes() int64 { return s.parts.Bytes() }

// Retain adds a reference. The caller must already hold a reference.
func (s *Sliced) Retain() { s.parts.Retain() }

// Release removes a reference. It is safe for concurrent use. The last one frees the disk
// space.
func (s *Sliced) Release() {
	if s.parts.release() {
		s.row0.Release()
		s.row0 = nil
	}
}

// ProbedBy returns a Probeable of the rows for one join. The Probeable holds a reference to s.
// training is another stream of the join's training rows, in the same order. It has their key
// columns (Key) and, if the rule has a time, the time column as the only one of Columns. NewMatcher
// reads it. spilled is called with the number of bytes that the join writes to local disk.
func (s *Sliced) ProbedBy(training joiner.Input, spilled func(bytes int64)) joiner.Probeable {
	s.Retain()
	return &probedSlices{Sliced: s, training: training, spilled: spilled}
}

// probedSlices is the Probeable of a Sliced for one join.
type probedSlices struct {
	*Sliced
	training joiner.Input
	spilled  func(bytes int64)
}

// Schema implements joiner.Probeable.
func (p *probedSlices) Schema() joiner.Schema { return p.schema }

// NewMatcher writes the match log of a join, and returns its reader.
func (p *probedSlices) NewMatcher(ctx context.Context, rule joiner.Rule) (joiner.Matcher, error) {
	defer waits.Begin(ctx, waits.Spill)()
	log, err := p.writeLog(ctx, rule)
	if err != nil {
		return nil, fault.Op(err, "look up training rows on local disk")
	}
	r, err := newLogReader(log)
	if err != nil {
		return nil, err // returns a nil interface instead of a nil *logReader
	}
	return r, nil
}
