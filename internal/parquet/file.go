package parquet

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/store"
)

// DefaultBatchRows is the batch length that decodes fastest: long enough to
// spread the cost per batch and column, short enough for columns of lists to
// stay in caches.
const DefaultBatchRows = 16 << 10

// Options say how to open a file.
type Options struct {
	// Footer is the file's own, from an earlier Open or ReadFooter; nil reads
	// it. A footer of a file of another size is Corrupt, and so is one of a file with
	// another tag, found by the first read.
	Footer *Footer
	// End is what was read of the file to find its footer, if that is still there. It
	// is kept as long as the file is open.
	End *End
	// Gap is how far apart two column chunks may lie to be read in one request, in
	// bytes; 0 is DefaultGap.
	Gap int64
	// ReadSize bounds one request, so that several can run side by side and a wide row
	// group does not need one huge piece of memory; 0 is DefaultReadSize. A column
	// chunk is always one request.
	ReadSize int64
}

// File is an open Parquet file. It holds no memory but its footer; the caller
// closes the object after the last reader is released. It is safe for
// concurrent use.
type File struct {
	*Footer
	obj           store.Object
	end           *End // nil: not kept
	gap, readSize int64
}

// Open opens the file that an object holds.
func Open(ctx context.Context, obj store.Object, opts Options) (*File, error) {
	footer := opts.Footer
	if footer == nil {
		var err error
		if footer, err = ReadFooter(ctx, obj, FooterLimits{}); err != nil {
			return nil, err
		}
	}
	if footer.size != obj.Size() {
		return nil, damaged(obj.Location(), "file has %d bytes, its footer was read from %d", obj.Size(), footer.size)
	}
	if tagged, ok := obj.(store.Tagged); ok {
		if err := tagged.Expect(footer.tag); err != nil {
			return nil, err
		}
	}
	f := &File{Footer: footer, obj: obj, end: opts.End, gap: opts.Gap, readSize: opts.ReadSize}
	if f.gap <= 0 {
		f.gap = DefaultGap
	}
	if f.readSize <= 0 {
		f.readSize = DefaultReadSize
	}
	return f, nil
}

// Location is where the file lies.
func (f *File) Location() string { return f.obj.Location() }

// ReadOptions say what to read and into what.
type ReadOptions struct {
	// Fields are the Iceberg field ids of the columns, in the order wanted;
	// one for each field of Schema. One inside structs comes out as a column of
	// its own, null where any of the structs around it is.
	Fields []int
	// Schema has the wanted names, types and nullability. Metadata is used for
	// the field ids of nested fields, where given, and does not come out.
	Schema *arrow.Schema
	// RowGroups are read in this order; nil is all, in the file's order.
	RowGroups []int
	// BatchRows is the most rows of a batch; 0 is DefaultBatchRows. Batches
	// also end with their row group.
	BatchRows int
	// RunBytes bounds, as far as one row allows, the bytes of one column's strings in
	// a batch: batches have fewer rows where the longest value of a dictionary could
	// fill more. 0 is 32 MiB.
	RunBytes int64
	// NullIfAbsent gives nulls for nullable columns that the file lacks, as the
	// specification has it for columns added later; without it they are
	// refused. The caller sets it once it knows that the table has no other
	// source for the value: partition values of migrated files, defaults.
	NullIfAbsent bool
	// Constants give the values of columns that the file lacks, by field id, in place
	// of null.
	Constants map[int]Constant
	// Around says of a column in Constants in which struct of the file it would be, by
	// field ids. Where that struct is null, or one around it, so is the column.
	Around map[int]int
	// Numbers give the values of columns where the file lacks them or has null, by
	// field id.
	Numbers map[int]Numbers
	// Defaults give the values of fields of wanted structs that the file lacks, by
	// field id, in place of null.
	Defaults map[int]Constant
	// Parallel is how many columns are decoded side by side within Next; 0 and
	// 1 decode on the caller's goroutine.
	Parallel int
	// RequireChecksums refuses columns with a page that has no checksum, as
	// Invalid: damage to it could go unseen.
	RequireChecksums bool
	// WithoutChecksum, if given, is called within Next for every page that has
	// no checksum, where that is not refused.
	WithoutChecksum func()
	// Memory gives the batches' buffers; nil is Go's memory.
	Memory memory.Allocator
	// Scratch gives what does not leave the reader: stored bytes of a row
	// group and decompressed pages. Nil is Go's memory. A batch.Pool serves best.
	Scratch memory.Allocator
	// Admit is asked before the reader takes n bytes more than it was admitted, by
	// one goroutine at a time, and may wait: for the stored bytes and the pages of a
	// row group before it is opened, for each batch before it is decoded, and while
	// it is decoded where the estimate was too low. Batch is what the open batch
	// takes with them, 0 for what belongs to none. An error ends the reader with that
	// error, and negative n gives back. Nil is unlimited.
	Admit func(n, batch int64) error
	// Ahead is asked for memory for the stored bytes of the next row group, which are
	// read while one is decoded; nothing is read where there is none, and nil has none.
	// Drop gives the memory up; it may be called at any time, and waits for nothing.
	Ahead func(n int64, drop func()) (Spare, bool)
	// Part takes n admitted bytes out of the reader's hands, for memory that a read
	// has which was left behind; released gives them back when that returns. Nil
	// where Admit is.
	Part func(n int64) (released func())
}

// Constant makes so many rows of one value, in memory of mem, for the caller to
// release. Where a bit of valid, counted from an offset on, is not set, the row is
// null; without valid none is.
type Constant func(rows int, valid []byte, offset int, mem memory.Allocator) (arrow.Array, error)

// column is one wanted column of a reader.
type column struct {
	field  int // the top-level column among the file's that is read; -1 for none
	depth  int // structs around it
	shape  *shape
	leaves []int
	absent Constant // gives the column where the file lacks it
	number *Numbers // stands in place of nulls; nil for nothing
}

// nulls is the Constant of null.
func (s *shape) nulls(rows int, _ []byte, _ int, mem memory.Allocator) (arrow.Array, error) {
	return array.MakeArrayOfNull(cleared{mem}, s.want, rows), nil
}

// Read prepares reading and checks that it can be done: a column that cannot
// be served as wanted is Invalid. Nothing is read before the reader's first
// Next, and the context given is that of all reads. A batch is valid until the
// next call of Next or Release on the reader. The caller releases the reader,
// and closes the object only after.
func (f *File) Read(ctx context.Context, opts ReadOptions) (*Reader, error) {
	invariant.Check(len(opts.Fields) == opts.Schema.NumFields(), "%d fields, a schema of %d", len(opts.Fields), opts.Schema.NumFields())
	columns := make([]column, len(opts.Fields))
	for i, id := range opts.Fields {
		c, err := f.column(id, opts.Schema.Field(i), opts)
		if err != nil {
			return nil, fault.As(err).In("", f.Location())
		}
		if numbers, ok := opts.Numbers[id]; ok && c.shape.want.ID() == arrow.INT64 {
			c.number = &numbers
		}
		columns[i] = c
	}
	if opts.RowGroups == nil {
		for i := range f.groups {
			opts.RowGroups = append(opts.RowGroups, i)
		}
	}
	for _, group := range opts.RowGroups {
		if group < 0 || group >= len(f.groups) {
			return nil, fault.New(fault.Invalid, "row group %d is asked for, the file has %d", group, len(f.groups)).In("", f.Location())
		}
		if err := f.checkCodes(group, columns); err != nil {
			return nil, fault.As(err).In("", f.Location()).InRowGroup(group)
		}
	}
	if opts.BatchRows <= 0 {
		opts.BatchRows = DefaultBatchRows
	}
	if opts.RunBytes <= 0 {
		opts.RunBytes = defaultRunBytes
	}
	if opts.Memory == nil {
		opts.Memory = memory.NewGoAllocator()
	}
	if opts.Scratch == nil {
		opts.Scratch = memory.NewGoAllocator()
	}
	return newReader(ctx, f, columns, opts)
}

// column compares a wanted column with the file's.
func (f *File) column(id int, want arrow.Field, opts ReadOptions) (column, error) {
	field, ok := f.Field(id)
	if !ok {
		s := &shape{path: want.Name, want: plain(want.Type)}
		constant := opts.Constants[id]
		if constant == nil {
			constant = s.nulls
			if !want.Nullable || !opts.NullIfAbsent {
				return column{}, fault.New(fault.Invalid, "the file has no column %s (field id %d), and this version does not supply its value", want.Name, id)
			}
		}
		if id, ok := opts.Around[id]; ok {
			return f.around(id, s, constant)
		}
		return column{field: -1, shape: s, absent: constant}, nil
	}
	if f.ambiguous(id) {
		return column{}, damaged(f.Location(), "the footer has field id %d for two columns", id)
	}
	for _, leaf := range field.Leaves {
		if c := f.meta.Schema.Column(leaf); c.PhysicalType() == parquet.Types.Int96 {
			return column{}, fault.New(fault.Invalid, "column %s is stored as INT96 and as %s, of which this version knows no meaning", c.Path(), c.LogicalType()).
				WithRemedy("rewrite the file with timestamps in microseconds")
		}
		if f.ofNanos(leaf) && !f.provesNanos(leaf) {
			return column{}, fault.New(fault.Invalid, "column %s is annotated as times in nanoseconds, and the file's statistics do not show that it has such: no time is later than 00:01:26.4, or there are none", f.meta.Schema.Column(leaf).Path()).
				WithRemedy("rewrite the file with times in microseconds")
		}
	}
	s, err := newShape(want.Name, field.arrow, want, opts.Defaults)
	if err != nil {
		return column{}, err
	}
	s.strip()
	s.flat = overwritten(s.want)
	return column{field: field.root, depth: field.depth, shape: s, leaves: field.Leaves}, nil
}

// checkCodes sees that the compression and the encodings of the columns in a row group
// are known.
func (f *File) checkCodes(group int, columns []column) error {
	for _, c := range columns {
		for _, leaf := range c.leaves {
			described := f.meta.RowGroups[group].Columns[leaf].MetaData
			if codec := compress.Compression(described.Codec); !knownCodec(codec) {
				return fault.New(fault.Invalid, "column %s is compressed by %s, which this version does not read", c.shape.path, codec).
					WithRemedy("rewrite the file by another codec, such as zstd")
			}
			for _, e := range described.Encodings {
				if parquet.Encoding(e) > parquet.Encodings.ByteStreamSplit {
					return fault.New(fault.Invalid, "column %s has the encoding %d, which this version does not know", c.shape.path, e).
						WithRemedy("rewrite the file without it")
				}
			}
		}
	}
	return nil
}

// plainSchema is the schema of the batches.
func plainSchema(want *arrow.Schema) *arrow.Schema {
	fields := slices.Clone(want.Fields())
	for i := range fields {
		fields[i] = plainField(fields[i])
	}
	return arrow.NewSchema(fields, nil)
}

func plainField(f arrow.Field) arrow.Field {
	return arrow.Field{Name: f.Name, Type: plain(f.Type), Nullable: f.Nullable}
}

// plain strips a type of all metadata of nested fields.
func plain(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.ListType:
		return arrow.ListOfField(plainField(t.ElemField()))
	case *arrow.MapType:
		m := arrow.MapOfFields(plainField(t.KeyField()), plainField(t.ItemField()))
		m.KeysSorted = t.KeysSorted
		return m
	case *arrow.StructType:
		fields := slices.Clone(t.Fields())
		for i := range fields {
			fields[i] = plainField(fields[i])
		}
		return arrow.StructOf(fields...)
	default:
		return t
	}
}

// strip replaces the wanted types by their plain forms.
func (s *shape) strip() {
	s.want = plain(s.want)
	for _, child := range s.children {
		child.strip()
	}
}

// spans are the stored ranges of the columns in a row group.
func (f *File) spans(group int, columns []column) []span {
	var out []span
	for _, c := range columns {
		for _, leaf := range c.leaves {
			out = append(out, f.chunkSpan(group, leaf))
		}
	}
	return out
}
