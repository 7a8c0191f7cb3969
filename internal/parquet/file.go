package parquet

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/parquet/convert"
	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/store"
)

// DefaultBatchRows is the batch length that decodes fastest: long enough to amortize the
// cost per batch and column, short enough for list columns to stay in the CPU caches.
const DefaultBatchRows = 16 << 10

// DefaultMinRepeats is the default of ReadOptions.MinRepeats. With fewer rows per dictionary value,
// the dictionary takes nearly as much memory as the rows, and merging it with other dictionaries
// takes as much time as copying the rows.
const DefaultMinRepeats = 8

// Options are the options of Open.
type Options struct {
	// Footer is the file's footer from an earlier Open or ReadFooter; nil reads it. Open returns
	// Corrupt if the footer comes from a file of another size. If it comes from a file with another
	// tag, the first read returns Corrupt.
	Footer *Footer
	// End has the last bytes of the file, which ReadFooterAndTail returned. The File keeps them
	// while it is open. Nil reads all bytes from storage.
	End *FileTail
	// Gap is the maximum distance in bytes between two column chunks that are read in one
	// request. 0 means DefaultGap.
	Gap int64
	// ReadSize is the maximum size of one request, so that requests can run concurrently and a wide
	// row group does not need one huge buffer. 0 means DefaultReadSize. A column chunk is always
	// read in a single request, even if it is larger.
	ReadSize int64
}

// File is an open Parquet file. It holds no memory but its footer and, if given, its end.
// The caller closes the object after releasing the last reader. It is safe for concurrent
// use.
type File struct {
	*Footer
	obj           store.Object
	end           *FileTail // nil: none
	gap, readSize int64
}

// Open opens the file in an object.
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
	gap, readSize := cmp.Or(max(opts.Gap, 0), DefaultGap), cmp.Or(max(opts.ReadSize, 0), DefaultReadSize)
	return &File{Footer: footer, obj: obj, end: opts.End, gap: gap, readSize: readSize}, nil
}

// Location returns the location of the file.
func (f *File) Location() string { return f.obj.Location() }

// ReadOptions are the options of Read.
type ReadOptions struct {
	// Fields are the Iceberg field ids of the columns, one for each field of Schema and
	// in its order. A field inside structs becomes a column of its own, which is null
	// where any of the structs is null.
	Fields []int
	// Schema has the wanted names, types and nullability. Its metadata gives the ids of
	// nested fields, where present, and is not part of the result.
	Schema *arrow.Schema
	// RowGroups are read in this order; nil means all, in file order.
	RowGroups []int
	// From and To limit what is read of RowGroups to the rows [From, To), counted in the file; with
	// To 0 there is no upper limit. Pages without such rows are skipped if the page headers tell
	// which rows the pages have.
	From, To int64
	// BatchRows is the maximum number of rows of a batch; 0 means DefaultBatchRows. No
	// batch spans row groups.
	BatchRows int
	// StepRows, if above 0, makes batches end, where possible, at rows StepFrom + k*StepRows of the
	// file, so that a consumer that takes StepRows rows at a time rarely needs rows of two batches.
	StepRows, StepFrom int64
	// RunBytes is the maximum size in bytes of one column's strings in a batch. If rows that all
	// have the longest dictionary value could exceed it, batches have fewer rows, but at least one.
	// 0 means 32 MiB.
	RunBytes int64
	// NullIfAbsent makes nullable columns that the file lacks null, as the Iceberg specification
	// requires for columns that were added later; without it, such columns are refused. The caller
	// sets NullIfAbsent if the table has no other source of the values, such as the partition
	// values of migrated files, or defaults.
	NullIfAbsent bool
	// Constants replace null as the values of columns that the file lacks, by field id.
	Constants map[int]Constant
	// Around maps columns in Constants to the structs of the file that they would be in,
	// by field id. The column is null where that struct, or one around it, is null.
	Around map[int]int
	// Numbers replace nulls of columns, or whole columns that the file lacks, by field
	// id.
	Numbers map[int]Numbers
	// Defaults replace null as the values of fields of wanted structs that the file
	// lacks, by field id.
	Defaults map[int]Constant
	// Coded are the ids of columns of texts or binary values that may be returned as codes into the
	// dictionary of their row group (package batch) if their values repeat.
	Coded []int
	// MinRepeats is the number of rows per dictionary value from which on the columns in Coded are
	// returned as codes; 0 means DefaultMinRepeats.
	MinRepeats int
	// Cores decode the columns of a batch; nil: the caller's goroutine decodes all of them.
	Cores *cores.Cores
	// RequireChecksums refuses, as Invalid, columns that have a page without a checksum:
	// damage to such a page could go unnoticed.
	RequireChecksums bool
	// WithoutChecksum is called within Next with the field id of each column of a row group that
	// has pages without a checksum, unless RequireChecksums refuses such pages. Nil ignores them.
	WithoutChecksum func(field int)
	// Memory allocates the buffers of batches; nil means Go memory.
	Memory memory.Allocator
	// Scratch allocates memory that does not leave the reader: the stored bytes of a row
	// group and decompressed pages. Nil means Go memory. A batch.Pool serves best.
	Scratch memory.Allocator
	// Admit is called before the reader takes n more bytes: for the stored bytes and the pages of a
	// row group before it is opened, for each batch before it is decoded, and during decoding where
	// the estimate was too low. batch is the size of the open batch including these bytes, or 0 if
	// the bytes belong to no batch. Admit is called by one goroutine at a time and may wait. If it
	// returns an error, the reader ends with that error. A call with a negative n gives bytes back.
	// Nil means no limit.
	Admit func(n, batch int64) error
	// Ahead requests memory for the stored bytes of the next row group, which are read
	// while the open one is decoded. If it returns false, or is nil, nothing is read
	// ahead. The memory's owner may call drop at any time to take it back; drop does not
	// wait.
	Ahead func(n int64, drop func()) (Spare, bool)
	// Shared holds the stored bytes of row groups for all Readers that are given the same
	// SharedChunks; with nil, each Reader reads the bytes for itself.
	Shared *SharedChunks
	// Keep moves n admitted bytes, which hold stored bytes of Shared, out of the reader's account.
	// drop is as in Ahead. Keep is only used with Shared.
	Keep func(n int64, drop func()) Spare
	// GiveUp is called when the shared bytes of the open row group are needed elsewhere. By
	// returning true, GiveUp promises that the Reader will close the row group without waiting for
	// anything, because Admit fails or the Reader is released. GiveUp must not call the Reader. Nil
	// keeps the bytes.
	GiveUp func() bool
	// Asked is called when a row group is opened, with the stored size of the column chunks that
	// will be decoded, which excludes Cached columns. It may be nil.
	Asked func(bytes int64)
	// Cached returns the columns of a row group whose decoded values exist already, by their index
	// in Fields. Columns with a nil entry, or without an entry, are read. Cached is called once for
	// each row group, before any of its bytes are read, even if they are read ahead. If Cached is
	// nil, all columns are read.
	Cached func(group int) []CachedColumn
	// Decoding is called before a column, given by its index in Fields, is decoded for a batch, and
	// the function that it returns is called afterwards. Both calls may be on any goroutine.
	// Decoding may be nil.
	Decoding func(column int) (decoded func())
	// Part moves n admitted bytes, to which an abandoned read may still write, out of the reader's
	// account. released is called when that read returns, and gives the bytes back. Part is nil if
	// Admit is nil.
	Part func(n int64) (released func())
}

// Constant makes a column of one value.
type Constant = convert.Constant

// column is a wanted column of a Reader.
type column struct {
	id         int // Iceberg field id
	field      int // index of the top-level column in the file; -1: the file lacks the column, or it is cached
	depth      int // structs around it
	conversion *convert.Conversion
	leaves     []int
	absent     Constant // makes the column's values if the file lacks the column
	number     *Numbers // replaces nulls; nil: nulls stay
	coded      bool     // batches may have codes instead of values
}

// Read prepares a Reader and checks that it can serve every column in the wanted type;
// otherwise it returns Invalid. Nothing is read before the Reader's first Next. All reads
// use ctx. A batch is valid until the next call of Next or Release on the Reader. The
// caller releases the Reader, and closes the object only afterwards.
func (f *File) Read(ctx context.Context, opts ReadOptions) (*Reader, error) {
	invariant.Check(len(opts.Fields) == opts.Schema.NumFields(), "%d fields, a schema of %d", len(opts.Fields), opts.Schema.NumFields())
	columns := make([]column, len(opts.Fields))
	for i, id := range opts.Fields {
		c, err := f.column(id, opts.Schema.Field(i), opts)
		if err != nil {
			return nil, fault.As(err).In("", f.Location())
		}
		if numbers, ok := opts.Numbers[id]; ok && c.conversion.Want.ID() == arrow.INT64 {
			c.number = &numbers
		}
		c.coded = c.field >= 0 && slices.Contains(opts.Coded, id) && batch.MayBeCoded(c.conversion.Want) &&
			c.conversion.Unchanged() && arrow.TypeEqual(f.fields[c.field].arrow.Type, c.conversion.Want)
		c.id = id
		columns[i] = c
	}
	if opts.RowGroups == nil {
		for i := range f.groups {
			opts.RowGroups = append(opts.RowGroups, i)
		}
	}
	for _, group := range opts.RowGroups {
		if group < 0 || group >= len(f.groups) {
			return nil, fault.New(fault.Invalid, "row group %d was requested, but the file has %d", group, len(f.groups)).In("", f.Location())
		}
		if err := f.checkCodes(group, columns); err != nil {
			return nil, fault.As(err).In("", f.Location()).InRowGroup(group)
		}
	}
	opts.BatchRows = cmp.Or(max(opts.BatchRows, 0), DefaultBatchRows)
	opts.MinRepeats = cmp.Or(max(opts.MinRepeats, 0), DefaultMinRepeats)
	opts.RunBytes = cmp.Or(max(opts.RunBytes, 0), defaultRunBytes)
	opts.Memory = cmp.Or[memory.Allocator](opts.Memory, batch.Default())
	opts.Scratch = cmp.Or[memory.Allocator](opts.Scratch, batch.Default())
	return newReader(ctx, f, columns, opts)
}

// column finds the column of the file that serves a wanted column.
func (f *File) column(id int, want arrow.Field, opts ReadOptions) (column, error) {
	field, ok := f.Field(id)
	if !ok {
		conv := convert.Absent(want.Name, want.Type)
		constant := opts.Constants[id]
		if constant == nil {
			constant = conv.Nulls
			if !want.Nullable || !opts.NullIfAbsent {
				return column{}, fault.New(fault.Invalid, "the file has no column %s (field id %d), and this version does not supply its value", want.Name, id)
			}
		}
		if id, ok := opts.Around[id]; ok {
			return f.absentInStruct(id, conv, constant)
		}
		return column{field: -1, conversion: conv, absent: constant}, nil
	}
	if f.ambiguous(id) {
		return column{}, damaged(f.Location(), "the footer has field id %d for two columns", id)
	}
	for _, leaf := range field.Leaves {
		if err := f.unknown.refuse(leaf, want.Name); err != nil {
			return column{}, err
		}
		if c := f.meta.Schema.Column(leaf); c.PhysicalType() == parquet.Types.Int96 {
			return column{}, fault.New(fault.Invalid, "column %s is stored as INT96 with the annotation %s, which this version does not support", c.Path(), c.LogicalType()).
				WithRemedy("rewrite the file with timestamps in microseconds")
		}
		if f.isTimeNanos(leaf) && !f.statisticsProveNanos(leaf) {
			return column{}, fault.New(fault.Invalid, "column %s is annotated as times in nanoseconds, but the file's statistics do not prove it: no time is later than 00:01:26.4, or there are no statistics", f.meta.Schema.Column(leaf).Path()).
				WithRemedy("rewrite the file with times in microseconds")
		}
	}
	conv, err := convert.New(want.Name, field.arrow, want, opts.Defaults)
	if err != nil {
		return column{}, err
	}
	return column{field: field.root, depth: field.depth, conversion: conv, leaves: field.Leaves}, nil
}

// absentInStruct returns a column that the file lacks and that is inside a struct of the file: it
// has a constant value where the struct is not null. The result reads one column of the struct,
// because Parquet stores the nulls of a struct only in the levels of its columns.
func (f *File) absentInStruct(id int, conv *convert.Conversion, constant Constant) (column, error) {
	parent, ok := f.structField(id)
	if !ok {
		return column{}, fault.New(fault.Internal, "the file has no struct with field id %d around column %s", id, conv.Path)
	}
	leaf := parent.Leaves[0]
	for _, other := range parent.Leaves {
		if f.meta.Schema.Column(other).MaxRepetitionLevel() < f.meta.Schema.Column(leaf).MaxRepetitionLevel() {
			leaf = other // prefer a column that is not in a list
		}
	}
	if err := f.unknown.refuse(leaf, conv.Path); err != nil {
		return column{}, err
	}
	return column{field: parent.root, depth: parent.depth + 1, conversion: conv, leaves: []int{leaf}, absent: constant}, nil
}

// checkCodes returns an error if the codec or an encoding of the columns in a row group
// is unknown.
func (f *File) checkCodes(group int, columns []column) error {
	for _, c := range columns {
		for _, leaf := range c.leaves {
			described := f.meta.RowGroups[group].Columns[leaf].MetaData
			if codec := compress.Compression(described.Codec); !page.KnownCodec(codec) {
				return fault.New(fault.Invalid, "column %s is compressed with %s, which this version does not read", c.conversion.Path, codec).
					WithRemedy("rewrite the file with another codec, such as zstd")
			}
			for _, e := range described.Encodings {
				if parquet.Encoding(e) > parquet.Encodings.ByteStreamSplit {
					return fault.New(fault.Invalid, "column %s has encoding %d, which this version does not support", c.conversion.Path, e).
						WithRemedy("rewrite the file without this encoding")
				}
			}
		}
	}
	return nil
}

// spans returns the ranges of the columns' chunks in a row group.
func (f *File) spans(group int, columns []column) []span {
	var out []span
	for _, c := range columns {
		for _, leaf := range c.leaves {
			out = append(out, f.chunkSpan(group, leaf))
		}
	}
	return out
}
