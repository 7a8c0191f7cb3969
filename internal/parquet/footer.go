package parquet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/store"
)

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	// trailer is the size of the length field and the magic bytes at the end of a file.
	trailer = 8
	// DefaultTail is the size of the first read at the end of a file: enough for the
	// footer of all but wide files with many row groups, which take a second read.
	DefaultTail = tailBytes
	// tailBytes is the size up to which the end of a file, or a footer, is not charged to the
	// budget.
	tailBytes = 64 << 10
	// footerWeight is the memory of a decoded footer per stored byte, measured on files
	// of 20 to 50 columns.
	footerWeight = 8
	// structWeight is the minimum memory of a struct in a decoded footer. It determines the
	// estimated size of footers that have many structs for their length.
	structWeight = 160
	// maxFooterDepth is the maximum nesting of structs and lists in a footer, the same as
	// in the library's decoder.
	maxFooterDepth = 64
)

// FooterLimits bound reading a footer. The zero value has no bounds.
type FooterLimits struct {
	// Tail is the size of the first read at the end of the file; 0 means DefaultTail. A
	// longer footer takes a second read.
	Tail int64
	// Bytes is the maximum size of a stored footer; a larger one is Exhausted. 0 means no
	// limit.
	Bytes int64
	// Budget is charged, while a footer is read and decoded, for the footer if it is larger than 64
	// KiB, and for the first read if Tail is. Nil means no limit.
	Budget *budget.Budget
}

// Footer is the metadata of a file. It is immutable, safe for concurrent use, and remains
// valid because files never change.
type Footer struct {
	fieldSet
	meta      *metadata.FileMetaData
	groups    []RowGroup
	leafKinds []leafKind // of the primitive columns
	unknown   unknownTypes
	size      int64
	stored    int64
	weight    int64  // estimated bytes of memory
	tag       string // of the object; "": none
}

// Length returns the length of the footer in the file.
func (f *Footer) Length() int64 { return f.stored }

// RowGroup is a row group of a file.
type RowGroup struct {
	FirstRow int64 // in the file, from 0
	Rows     int64
	Bytes    int64 // as stored, of all columns
}

// Rows returns the number of rows in the file.
func (f *Footer) Rows() int64 { return f.meta.NumRows }

// RowGroups returns the file's row groups in order. The caller must not change the slice.
func (f *Footer) RowGroups() []RowGroup { return f.groups }

// FileSize returns the size of the file in bytes.
func (f *Footer) FileSize() int64 { return f.size }

// Bytes returns the estimated memory of the footer, for caches.
func (f *Footer) Bytes() int64 { return f.weight }

// ReadFooter reads the footer of a file with one read at its end, and a second one if
// needed.
func ReadFooter(ctx context.Context, obj store.Object, limits FooterLimits) (*Footer, error) {
	footer, _, err := ReadFooterAndTail(ctx, obj, limits)
	return footer, err
}

// ReadFooterAndTail is like ReadFooter, but also returns the bytes of its first read, at the end of
// the file.
func ReadFooterAndTail(ctx context.Context, obj store.Object, limits FooterLimits) (*Footer, *FileTail, error) {
	size := obj.Size()
	if size < int64(len(magic))+trailer {
		return nil, nil, damaged(obj.Location(), "file of %d bytes is too short for a Parquet file", size)
	}
	first := cmp.Or(max(limits.Tail, 0), DefaultTail)
	end := &FileTail{start: size - min(size, max(first, trailer))}
	held, err := limits.Budget.Reserve("the end of "+obj.Location(), 0)
	if err == nil && first > tailBytes {
		err = held.GrowWait(ctx, size-end.start)
	}
	if err != nil {
		return nil, nil, fault.Op(err, "read footer of %s", obj.Location())
	}
	tail := make([]byte, size-end.start)
	stored := budget.NewBuffer(tail, held)
	defer stored.Release()
	if err = obj.ReadAt(ctx, stored, end.start); err != nil {
		return nil, nil, fault.Op(err, "read footer of %s", obj.Location())
	}
	end.content.Store(&tail)
	footer, err := decodeFooter(ctx, obj, tail, limits)
	if err != nil {
		return nil, nil, err
	}
	footer.tag = store.TagOf(obj)
	return footer, end, nil
}

// decodeFooter decodes the footer of a file, given the bytes of the first read. If the footer is
// longer, it reads the rest.
func decodeFooter(ctx context.Context, obj store.Object, tail []byte, limits FooterLimits) (*Footer, error) {
	size := obj.Size()
	switch end := string(tail[len(tail)-len(magic):]); end {
	case magic:
	case magicEncrypted:
		return nil, fault.New(fault.Invalid, "encrypted Parquet files are not supported by this version").
			In("", obj.Location())
	default:
		return nil, damaged(obj.Location(), "file does not end with the magic bytes of Parquet")
	}
	length := int64(binary.LittleEndian.Uint32(tail[len(tail)-trailer:]))
	if length > size-trailer-int64(len(magic)) {
		return nil, damaged(obj.Location(), "file of %d bytes cannot hold the footer of %d bytes that it declares", size, length)
	}
	held, err := limits.admit(ctx, obj.Location(), length)
	if err != nil {
		return nil, fault.Op(err, "read footer of %s", obj.Location())
	}
	stored := make([]byte, length)
	buffer := budget.NewBuffer(stored, held)
	defer buffer.Release()
	have := min(length, int64(len(tail))-trailer)
	copy(stored[length-have:], tail[int64(len(tail))-trailer-have:])
	if have < length {
		missing := memory.SliceBuffer(buffer, 0, int(length-have))
		defer missing.Release()
		if err := obj.ReadAt(ctx, missing, size-trailer-length); err != nil {
			return nil, fault.Op(err, "read footer of %s", obj.Location())
		}
	}
	// The decoder allocates as many elements as a list claims to have before it reads the
	// first one: a few bytes could make it allocate gigabytes.
	structs, err := checkFooter(stored)
	if err != nil {
		return nil, damaged(obj.Location(), "the footer cannot be decoded: %w", err)
	}
	weight := max(length*footerWeight, structs*structWeight)
	if length > tailBytes {
		if err := held.GrowWait(ctx, weight); err != nil {
			return nil, fault.Op(err, "read footer of %s", obj.Location())
		}
	}
	known, unknown, err := knownTypes(stored)
	if err != nil {
		return nil, damaged(obj.Location(), "the footer cannot be decoded: %w", err)
	}
	footer, err := parseFooter(obj.Location(), known, unknown, length, size)
	if err != nil {
		return nil, err
	}
	footer.weight = weight
	return footer, nil
}

var errFooter = errors.New("it ends too early, or claims more than it holds")

// admit checks that a footer of this length may be read, and charges it. The caller
// releases the reservation.
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

// parseFooter decodes and validates a footer from which knownTypes has removed unknown types.
// length is the size of the stored footer, and size the size of the file.
func parseFooter(location string, known []byte, unknown unknownTypes, length, size int64) (footer *Footer, err error) {
	defer recovered(&err, location, "the footer cannot be decoded")
	meta, err := metadata.NewFileMetaData(known, nil)
	if err != nil {
		return nil, damaged(location, "the footer cannot be decoded: %w", err)
	}
	return newFooter(location, meta, unknown, length, size)
}

// newFooter returns a Footer after it has validated everything in the metadata that reading relies
// on. stored is the size of the stored footer, and size the size of the file.
func newFooter(location string, meta *metadata.FileMetaData, unknown unknownTypes, stored, size int64) (*Footer, error) {
	// Writers may store their Arrow schema here. It would change the decoded types, which
	// depend on the table's types only.
	meta.FileMetaData.KeyValueMetadata = nil
	meta.SetSourceFileSize(size)
	f := &Footer{meta: meta, unknown: unknown, size: size, stored: stored}
	if meta.IsSetEncryptionAlgorithm() {
		return nil, fault.New(fault.Invalid, "encrypted Parquet files are not supported by this version").In("", location)
	}
	err := f.checkGroups(size - trailer - stored)
	if err == nil {
		err = checkSchema(meta)
	}
	if err == nil {
		err = f.rewriteLegacyTypes()
	}
	if err != nil {
		return nil, damaged(location, "the footer contradicts itself: %w", err)
	}
	manifest, err := f.manifest()
	if err != nil {
		return nil, fault.As(err).In("", location)
	}
	f.fieldSet, err = newFieldSet(manifest, f.leafKinds, func(field arrow.Field) (arrow.Field, error) { return field, nil })
	return f, err
}

// chunkSpan returns the range of a column chunk, as computed by the library.
func (f *Footer) chunkSpan(group, leaf int) span {
	m := f.meta.RowGroups[group].Columns[leaf].MetaData
	start := m.DataPageOffset
	if m.DictionaryPageOffset != nil && *m.DictionaryPageOffset > 0 {
		start = min(start, *m.DictionaryPageOffset)
	}
	return span{start: start, length: m.TotalCompressedSize}
}

// describe returns the footer's description of a column chunk.
func (f *Footer) describe(group, leaf int) *page.Chunk {
	m := f.meta.RowGroups[group].Columns[leaf].MetaData
	out := &page.Chunk{
		Column: f.meta.Schema.Column(leaf), Codec: compress.Compression(m.Codec),
		Encodings: make([]parquet.Encoding, len(m.Encodings)), Values: m.NumValues, Uncompressed: m.TotalUncompressedSize,
	}
	for i, e := range m.Encodings {
		out.Encodings[i] = parquet.Encoding(e)
	}
	return out
}

// hasLongChunks reports whether the library lists the writer's version among those whose chunks are
// longer than the footer says.
func (f *Footer) hasLongChunks() bool {
	return f.meta.WriterVersion().LessThan(metadata.Parquet816FixedVersion)
}

// damaged returns the error for a file that contradicts itself.
func damaged(location, format string, args ...any) *fault.Error {
	return fault.New(fault.Corrupt, format, args...).In("", location).
		WithRemedy("restore the file, or read a snapshot that does not need it")
}

// recovered is deferred around calls of the library, which trusts its input in places
// where damaged files make it panic. It turns a panic into an error about the file, and a
// Refusal into its own error.
func recovered(err *error, location, what string) {
	switch r := recover().(type) {
	case nil:
	case charged.Refusal:
		*err = r.Err
	default:
		*err = damaged(location, "%s: %v", what, r)
	}
}
