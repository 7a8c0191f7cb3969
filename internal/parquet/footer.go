package parquet

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	// trailer is the length field and the magic bytes at a file's end.
	trailer = 8
	// DefaultTail is how much of a file's end is read to find its footer: enough
	// for all but wide files of many row groups, which need a second read.
	DefaultTail = tailBytes
	// tailBytes is how much of a file's end is read without a charge.
	tailBytes = 64 << 10
	// footerWeight is how much memory a decoded footer takes per stored byte,
	// measured on files of 20 to 50 columns.
	footerWeight = 8
	// structWeight is the least that a struct of a footer takes in memory. It
	// decides where a footer was made to have many for its length.
	structWeight = 160
	// footerDepth is how deep a footer's structs and lists may lie inside each
	// other: as deep as the library goes that decodes them.
	footerDepth = 64
)

// FooterLimits bound what the reading of a footer may take. The zero value
// bounds nothing.
type FooterLimits struct {
	// Tail is how much of a file's end is read at first; 0 is DefaultTail. It is no
	// limit: a longer footer takes a second read.
	Tail int64
	// Bytes is the most bytes of a footer, as stored: a longer one is Exhausted.
	// 0 is no limit.
	Bytes int64
	// Budget is charged, while it is read and decoded, for a footer that is longer
	// than the end of a file that is read in any case. Nil is unlimited.
	Budget *budget.Budget
}

// Footer is what a file says about itself. It is immutable, safe for
// concurrent use, and may be kept for as long as one likes: the file it came
// from never changes.
type Footer struct {
	meta      *metadata.FileMetaData
	fields    []Field
	inside    []Field // primitive columns inside structs
	structs   []Field // top-level, or inside structs
	groups    []RowGroup
	leafKinds []leafKind // of the primitive columns
	size      int64
	stored    int64
	weight    int64  // bytes of memory, estimated
	tag       string // of the object that it was read from; "": it had none
}

// RowGroup is one horizontal piece of a file.
type RowGroup struct {
	FirstRow int64 // of the file's rows, from 0
	Rows     int64
	Bytes    int64 // as stored, all columns
}

// Rows is the number of rows in the file.
func (f *Footer) Rows() int64 { return f.meta.NumRows }

// RowGroups are the file's row groups in order. The caller does not change
// the slice.
func (f *Footer) RowGroups() []RowGroup { return f.groups }

// FileSize is the length in bytes of the file that the footer belongs to.
func (f *Footer) FileSize() int64 { return f.size }

// Bytes estimates the memory that the footer holds, for caches.
func (f *Footer) Bytes() int64 { return f.weight }

// WrittenBy is the name and version of the writer, or "".
func (f *Footer) WrittenBy() string { return f.meta.GetCreatedBy() }

// ReadFooter reads the footer of a file: one read of its end, and a second one where
// that is not enough. What it reads into is the collector's, so that a read that was
// left behind may have it.
func ReadFooter(ctx context.Context, obj store.Object, limits FooterLimits) (*Footer, error) {
	footer, _, err := ReadEnd(ctx, obj, limits)
	return footer, err
}

// ReadEnd is ReadFooter, and returns what it read of the file's end too.
func ReadEnd(ctx context.Context, obj store.Object, limits FooterLimits) (*Footer, *End, error) {
	size := obj.Size()
	if size < int64(len(magic))+trailer {
		return nil, nil, damaged(obj.Location(), "file of %d bytes is too short for a Parquet file", size)
	}
	most := limits.Tail
	if most <= 0 {
		most = DefaultTail
	}
	end := &End{start: size - min(size, max(most, trailer))}
	held, err := limits.Budget.Reserve("the end of "+obj.Location(), 0)
	if err == nil && most > tailBytes {
		err = held.GrowWait(ctx, size-end.start)
	}
	if err != nil {
		return nil, nil, fault.Op(err, "read footer of %s", obj.Location())
	}
	defer func() { store.WhenReturned(err, held.Release) }()
	tail := make([]byte, size-end.start)
	if err = obj.ReadAt(ctx, tail, end.start); err != nil {
		return nil, nil, fault.Op(err, "read footer of %s", obj.Location())
	}
	end.content.Store(&tail)
	footer, err := footerOf(ctx, obj, tail, limits)
	if err != nil {
		return nil, nil, err
	}
	footer.tag = store.TagOf(obj)
	return footer, end, nil
}

// footerOf decodes the footer of a file whose end was read, and reads what is missing.
func footerOf(ctx context.Context, obj store.Object, tail []byte, limits FooterLimits) (_ *Footer, err error) {
	size := obj.Size()
	switch end := string(tail[len(tail)-len(magic):]); end {
	case magic:
	case magicEncrypted:
		return nil, fault.New(fault.Invalid, "encrypted Parquet files are not served by this version").
			In("", obj.Location())
	default:
		return nil, damaged(obj.Location(), "file does not end like a Parquet file")
	}
	length := int64(binary.LittleEndian.Uint32(tail[len(tail)-trailer:]))
	if length > size-trailer-int64(len(magic)) {
		return nil, damaged(obj.Location(), "file of %d bytes cannot hold the footer of %d bytes that it announces", size, length)
	}
	held, err := limits.admit(ctx, obj.Location(), length)
	if err != nil {
		return nil, fault.Op(err, "read footer of %s", obj.Location())
	}
	defer func() { store.WhenReturned(err, held.Release) }()
	stored := make([]byte, length)
	have := min(length, int64(len(tail))-trailer)
	copy(stored[length-have:], tail[int64(len(tail))-trailer-have:])
	if have < length {
		if err := obj.ReadAt(ctx, stored[:length-have], size-trailer-length); err != nil {
			return nil, fault.Op(err, "read footer of %s", obj.Location())
		}
	}
	// The decoder makes room for as many elements as a list claims to have before
	// it looks for the first one: a few bytes would have it allocate gigabytes.
	walk := thrift{rest: stored}
	if walk.skip(thriftStruct, footerDepth) != nil {
		return nil, damaged(obj.Location(), "the footer cannot be decoded: it ends too early, or claims more than it holds")
	}
	if err := checkDepth(stored); err != nil {
		return nil, damaged(obj.Location(), "the footer cannot be decoded: %w", err)
	}
	weight := max(length*footerWeight, walk.structs*structWeight)
	if length > tailBytes {
		if err := held.GrowWait(ctx, weight); err != nil {
			return nil, fault.Op(err, "read footer of %s", obj.Location())
		}
	}
	footer, err := parseFooter(obj.Location(), stored, size)
	if err != nil {
		return nil, err
	}
	footer.weight = weight
	return footer, nil
}

// admit looks whether a footer of so many bytes may be read, and charges them.
// The caller releases what is charged.
func (l FooterLimits) admit(ctx context.Context, location string, length int64) (*budget.Reservation, error) {
	if l.Bytes > 0 && length > l.Bytes {
		return nil, fault.New(fault.Exhausted, "the footer has %d bytes, more than max_metadata allows, which is %d", length, l.Bytes).
			In("", location).WithRemedy("rewrite the file with fewer row groups, or raise the server's max_metadata")
	}
	held, err := l.Budget.Reserve("the footer of "+location, 0)
	if err != nil || length <= tailBytes {
		return held, err
	}
	if err := held.GrowWait(ctx, length); err != nil {
		return nil, err
	}
	return held, nil
}

// parseFooter decodes and checks a footer.
func parseFooter(location string, stored []byte, size int64) (footer *Footer, err error) {
	defer recovered(&err, location, "the footer cannot be decoded")
	meta, err := metadata.NewFileMetaData(stored, nil)
	if err != nil {
		return nil, damaged(location, "the footer cannot be decoded: %w", err)
	}
	return newFooter(location, meta, int64(len(stored)), size)
}

// newFooter checks all that reading will rely on. The footer took stored bytes
// of the file's size.
func newFooter(location string, meta *metadata.FileMetaData, stored, size int64) (*Footer, error) {
	// Writers may leave their own Arrow schema here, which would change the
	// decoded types; the table's types alone decide.
	meta.FileMetaData.KeyValueMetadata = nil
	meta.SetSourceFileSize(size)
	f := &Footer{meta: meta, size: size, stored: stored}
	if meta.IsSetEncryptionAlgorithm() {
		return nil, fault.New(fault.Invalid, "encrypted Parquet files are not served by this version").In("", location)
	}
	if err := f.checkGroups(size - trailer - stored); err != nil {
		return nil, damaged(location, "the footer contradicts itself: %w", err)
	}
	if err := f.checkSchema(); err != nil {
		return nil, damaged(location, "the footer contradicts itself: %w", err)
	}
	if err := f.modernize(); err != nil {
		return nil, damaged(location, "the footer contradicts itself: %w", err)
	}
	manifest, err := f.manifest()
	if err != nil {
		return nil, fault.As(err).In("", location)
	}
	return f, f.setFields(manifest, func(field arrow.Field) (arrow.Field, error) { return field, nil })
}

// checkSchema sees that every field says whether it may be null or repeated, as the
// library takes what it does not know for required; and that a timestamp's unit
// is that of the older form of its type, where both are there.
func (f *Footer) checkSchema() error {
	for _, e := range f.meta.FileMetaData.Schema[1:] { // behind the root
		if e.RepetitionType == nil || *e.RepetitionType < 0 || parquet.Repetition(*e.RepetitionType) > parquet.Repetitions.Repeated {
			return fmt.Errorf("column %s does not say whether it is required", e.Name)
		}
		if e.LogicalType == nil || e.LogicalType.TIMESTAMP == nil || e.LogicalType.TIMESTAMP.Unit == nil || e.ConvertedType == nil {
			continue
		}
		older, unit := schema.ConvertedType(*e.ConvertedType), e.LogicalType.TIMESTAMP.Unit
		if older == schema.ConvertedTypes.TimestampMillis && unit.MILLIS == nil || older == schema.ConvertedTypes.TimestampMicros && unit.MICROS == nil {
			return fmt.Errorf("the timestamps of column %s have two units", e.Name)
		}
	}
	return nil
}

// checkGroups sees that row groups and column chunks lie before the end of the
// data, that they have the schema's columns, and that their rows add up.
func (f *Footer) checkGroups(end int64) error {
	columns := f.meta.Schema.NumColumns()
	var rows int64
	f.groups = make([]RowGroup, len(f.meta.RowGroups))
	for i, g := range f.meta.RowGroups {
		if g.NumRows < 0 || len(g.Columns) != columns {
			return fmt.Errorf("row group %d has %d rows, %d columns, the schema has %d", i, g.NumRows, len(g.Columns), columns)
		}
		group := RowGroup{FirstRow: rows, Rows: g.NumRows}
		for leaf := range columns {
			stored, err := f.checkChunk(i, leaf, end)
			if err != nil {
				return err
			}
			group.Bytes += stored
		}
		f.groups[i] = group
		if rows += g.NumRows; rows < 0 {
			return fmt.Errorf("rows of row groups up to %d do not add up", i)
		}
	}
	if rows != f.meta.NumRows {
		return fmt.Errorf("the file has %d rows, its row groups have %d", f.meta.NumRows, rows)
	}
	return nil
}

func (f *Footer) checkChunk(group, leaf int, end int64) (stored int64, err error) {
	chunk := f.meta.RowGroups[group].Columns[leaf]
	switch {
	case chunk.MetaData == nil:
		return 0, fmt.Errorf("row group %d says nothing of column %d", group, leaf)
	case chunk.FilePath != nil && *chunk.FilePath != "":
		return 0, fmt.Errorf("column %d of row group %d lies in another file, %s", leaf, group, *chunk.FilePath)
	}
	if f.meta.RowGroups[group].NumRows == 0 { // nothing of it is read, and writers say of it what they like
		return 0, nil
	}
	column := f.meta.Schema.Column(leaf)
	start, length := f.chunkRange(group, leaf)
	switch {
	case int(chunk.MetaData.Type) != int(column.PhysicalType()):
		return 0, fmt.Errorf("column %s of row group %d is not of its own type", column.Name(), group)
	case chunk.MetaData.TotalUncompressedSize < 0:
		return 0, fmt.Errorf("column %s of row group %d has %d bytes before compression", column.Name(), group, chunk.MetaData.TotalUncompressedSize)
	case start < int64(len(magic)) || length < 0 || length > end-start:
		return 0, fmt.Errorf("column %s of row group %d lies at bytes %d to %d, data ends at %d", column.Name(), group, start, start+length, end)
	case column.MaxRepetitionLevel() == 0 && chunk.MetaData.NumValues != f.meta.RowGroups[group].NumRows:
		return 0, fmt.Errorf("column %s of row group %d has %d values, the group has %d rows", column.Name(), group,
			chunk.MetaData.NumValues, f.meta.RowGroups[group].NumRows)
	}
	return length, nil
}

// chunkRange is where a column chunk lies, as the decoder computes it.
func (f *Footer) chunkRange(group, leaf int) (start, length int64) {
	m := f.meta.RowGroups[group].Columns[leaf].MetaData
	start = m.DataPageOffset
	if m.DictionaryPageOffset != nil && *m.DictionaryPageOffset > 0 {
		start = min(start, *m.DictionaryPageOffset)
	}
	return start, m.TotalCompressedSize
}

func (f *Footer) chunkSpan(group, leaf int) span {
	start, length := f.chunkRange(group, leaf)
	return span{start: start, length: length}
}

// damaged is the one form of errors about a file that contradicts itself.
func damaged(location, format string, args ...any) *fault.Error {
	return fault.New(fault.Corrupt, format, args...).In("", location).
		WithRemedy("restore the file, or read a snapshot that does not need it")
}

// recovered turns a panic of the decoder into an error about the file: the
// decoder trusts its input in places where damaged files break it. Memory that is
// refused is its own error. Only calls into the decoder run under it.
func recovered(err *error, location, what string) {
	switch r := recover().(type) {
	case nil:
	case refusal:
		*err = r.err
	default:
		*err = damaged(location, "%s: %v", what, r)
	}
}
