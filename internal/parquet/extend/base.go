package extend

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	libparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store"
)

const (
	trailerBytes = 8
	// copyBytes is the size of the reads that copy pages.
	copyBytes = 1 << 20
	// maxIndexBytes is the maximum size of an index or a bloom filter that is moved.
	maxIndexBytes = 256 << 20
)

// Options are those of AddColumns.
type Options struct {
	// Write has the new columns, how they are encoded, and the account for memory. Its Sorting is
	// not used: the order of the old file stays.
	Write write.Options
	// NameMapping gives ids to the fields, at any depth, of a file that has no ids. It is called
	// with a path of names, in which the fields in lists and maps are called element, key and
	// value. It returns the id of the field at that path, and the number of fields that it knows
	// inside that field. Fields that it does not know, and structs without a known field inside,
	// get ids that no table uses.
	NameMapping func(path []string) (id, inside int, ok bool)
	// OtherNames allows new columns to have names and ids of old columns. If the file has a column
	// of the same name, the new column is stored as name_id. Old fields with the id of a new column
	// get an id that no table uses. Since tables find columns by id, the new columns then replace
	// the old ones.
	OtherNames bool
}

// AddColumns starts a file that has the columns of from, followed by new columns. The caller calls
// Release of the DataWriter before it closes from.
func AddColumns(ctx context.Context, to chunk.Destination, from store.Object, opts Options) (*write.DataWriter, error) {
	footer, err := parquet.ReadFooter(ctx, from, parquet.FooterLimits{})
	if err != nil {
		return nil, err
	}
	b, err := newBase(ctx, from, footer, memory.NewBufferBytes(make([]byte, footer.Length())), &opts)
	if err != nil {
		return nil, err
	}
	return write.AddTo(ctx, to, b, opts.Write)
}

// Check returns the number of rows of a file, or the error with which AddColumns would refuse it.
// It reads only the footer, which is charged to the budget while it is in memory; a nil budget is
// unlimited.
func Check(ctx context.Context, from store.Object, opts Options, limit *budget.Budget) (rows int64, err error) {
	footer, err := parquet.ReadFooter(ctx, from, parquet.FooterLimits{Budget: limit})
	if err != nil {
		return 0, err
	}
	held, err := limit.ReserveFor(ctx, "the footer of "+from.Location(), footer.Bytes())
	if err != nil {
		return 0, err
	}
	stored := budget.NewBuffer(make([]byte, footer.Length()), held)
	defer stored.Release()
	_, err = newBase(ctx, from, footer, stored, &opts)
	return footer.Rows(), err
}

// base is the old file.
type base struct {
	from   store.Object
	meta   *metadata.FileMetaData // with all field ids
	fields schema.FieldList
	rows   []int64 // of each row group that has rows
	groups []int   // their positions
}

// newBase reads the footer again, into stored, and decodes it with the library. The library trusts
// the footer, which must therefore have been checked before.
func newBase(ctx context.Context, from store.Object, checked *parquet.Footer, stored *memory.Buffer, opts *Options) (*base, error) {
	if err := checked.CopyColumns(); err != nil {
		return nil, fault.As(err).In("", from.Location())
	}
	b := &base{from: from}
	if err := b.readFooter(ctx, stored); err != nil {
		return nil, err
	}
	for i, g := range b.meta.RowGroups {
		if g.NumRows > 0 {
			b.rows, b.groups = append(b.rows, g.NumRows), append(b.groups, i)
		}
		for _, c := range g.Columns {
			if c.FilePath != nil || c.MetaData == nil || c.CryptoMetadata != nil {
				return nil, fault.New(fault.Invalid, "the file %s is encrypted, or has its pages in other files", from.Location())
			}
		}
	}
	if opts.NameMapping != nil && !checked.HasAnyFieldID() {
		if err := b.mapNames(opts.NameMapping); err != nil {
			return nil, err
		}
	}
	if opts.OtherNames {
		b.freeIDs(opts.Write.Schema)
	}
	if err := b.setFields(); err != nil {
		return nil, err
	}
	if opts.OtherNames {
		opts.Write.Schema = b.otherNames(opts.Write.Schema)
	}
	b.dropUnordered()
	return b, b.checkNew(opts.Write.Schema)
}

func (b *base) readFooter(ctx context.Context, stored *memory.Buffer) (err error) {
	defer func() {
		if r := recover(); r != nil { // the library's decoder panics for some damage
			err = fault.New(fault.Corrupt, "the footer of %s cannot be read: %v", b.from.Location(), r)
		}
	}()
	if err := b.from.ReadAt(ctx, stored, b.from.Size()-trailerBytes-int64(stored.Len())); err != nil {
		return fault.Op(err, "read the footer of %s", b.from.Location())
	}
	if b.meta, err = metadata.NewFileMetaData(stored.Bytes(), nil); err != nil {
		return fault.New(fault.Corrupt, "the footer of %s cannot be read: %w", b.from.Location(), err)
	}
	return nil
}

// setFields sets the fields that the footer describes.
func (b *base) setFields() error {
	root, err := schema.FromParquet(b.meta.FileMetaData.Schema)
	if err != nil {
		return fault.New(fault.Corrupt, "the schema of %s cannot be read: %w", b.from.Location(), err)
	}
	group, ok := root.(*schema.GroupNode)
	if !ok {
		return fault.New(fault.Corrupt, "the file %s has no columns", b.from.Location())
	}
	for i := range group.NumFields() {
		b.fields = append(b.fields, group.Field(i))
	}
	return nil
}

// dropUnordered removes the minima and maxima of columns for which the file does not define an
// order of values: the new footer defines an order for all columns, in which these bounds may be
// wrong.
func (b *base) dropUnordered() {
	for i := range b.meta.Schema.NumColumns() {
		if b.meta.Schema.Column(i).ColumnOrder() == libparquet.ColumnOrders.TypeDefinedOrder {
			continue
		}
		for _, g := range b.meta.RowGroups {
			c := g.Columns[i]
			c.ColumnIndexOffset, c.ColumnIndexLength = nil, nil
			if c.MetaData.Statistics != nil {
				c.MetaData.Statistics.MinValue, c.MetaData.Statistics.MaxValue = nil, nil
			}
		}
	}
}

// checkNew checks that the new columns have other names and ids than the old ones.
func (b *base) checkNew(sc *arrow.Schema) error {
	if sc == nil {
		return nil // write.AddTo refuses a nil schema
	}
	used := map[string]string{}
	for _, e := range b.meta.FileMetaData.Schema[1:] {
		if e.FieldID != nil {
			used[strconv.Itoa(int(*e.FieldID))] = e.Name
		}
	}
	for _, f := range sc.Fields() {
		if b.hasName(f.Name) {
			return fault.New(fault.Invalid, "the file %s has a column %s already", b.from.Location(), f.Name)
		}
		if err := checkIDs(f, used); err != nil {
			return err
		}
	}
	return nil
}

func checkIDs(f arrow.Field, used map[string]string) error {
	if id, ok := f.Metadata.GetValue("PARQUET:field_id"); ok {
		if other, ok := used[id]; ok {
			return fault.New(fault.Invalid, "the new column %s has the field id %s, and so has column %s of the file", f.Name, id, other)
		}
	}
	if nested, ok := f.Type.(arrow.NestedType); ok {
		for _, c := range nested.Fields() {
			if err := checkIDs(c, used); err != nil {
				return err
			}
		}
	}
	return nil
}

// Layout implements write.Base.
func (b *base) Layout() (chunk.FooterFields, schema.FieldList) {
	var kept metadata.KeyValueMetadata
	for _, pair := range b.meta.KeyValueMetadata() {
		if !slices.Contains(describesAll(), pair.Key) {
			kept = append(kept, pair)
		}
	}
	return chunk.FooterFields{CreatedBy: b.meta.GetCreatedBy(), Metadata: kept}, b.fields
}

// describesAll returns the keys of those metadata entries that contain a schema of all columns.
func describesAll() []string {
	return []string{"ARROW:schema", "pandas", "iceberg.schema", "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema", "avro.schema", "writer.model.name"}
}

// Rows implements write.Base.
func (b *base) Rows() []int64 { return b.rows }

// Held implements write.Base.
func (b *base) Held(group int) int64 {
	sum := int64(copyBytes)
	for _, c := range b.meta.RowGroups[b.groups[group]].Columns {
		for _, length := range []*int32{c.ColumnIndexLength, c.OffsetIndexLength, c.MetaData.BloomFilterLength} {
			if length != nil {
				sum += 2 * max(int64(*length), 0)
			}
		}
	}
	return sum
}

// Group implements write.Base.
func (b *base) Group(ctx context.Context, group int) ([]chunk.EncodedChunk, []libparquet.SortingColumn, error) {
	at := b.groups[group]
	var out []chunk.EncodedChunk
	for i := range b.meta.RowGroups[at].Columns {
		c, err := b.chunk(ctx, at, i)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, c)
	}
	var sorting []libparquet.SortingColumn
	for _, s := range b.meta.RowGroups[at].SortingColumns {
		sorting = append(sorting, *s)
	}
	return out, sorting, nil
}

// chunk returns a chunk of the old file, whose pages are read when they are written.
func (b *base) chunk(ctx context.Context, group, column int) (out chunk.EncodedChunk, err error) {
	c := b.meta.RowGroups[group].Columns[column]
	start := c.MetaData.DataPageOffset
	if d := c.MetaData.DictionaryPageOffset; d != nil && *d > 0 {
		start = min(start, *d)
	}
	end := start + c.MetaData.TotalCompressedSize
	if start < 0 || end < start || end > b.from.Size() {
		return out, fault.New(fault.Corrupt, "the footer of %s has a column outside the file", b.from.Location())
	}
	out = chunk.EncodedChunk{Of: b.meta, Group: group, Column: column, Pages: func(ctx context.Context, write func(context.Context, []byte) error) error {
		part := make([]byte, min(copyBytes, end-start))
		for at := start; at < end; at += int64(len(part)) {
			part = part[:min(int64(len(part)), end-at)]
			if err := b.read(ctx, part, at); err != nil {
				return err
			}
			if err := write(ctx, part); err != nil {
				return err
			}
		}
		return nil
	}}
	if out.ColumnIndex, err = b.section(ctx, c.ColumnIndexOffset, c.ColumnIndexLength); err != nil {
		return out, err
	}
	if out.OffsetIndex, err = b.section(ctx, c.OffsetIndexOffset, c.OffsetIndexLength); err != nil {
		return out, err
	}
	out.Bloom, err = b.bloom(ctx, c.MetaData.BloomFilterOffset, c.MetaData.BloomFilterLength)
	return out, err
}

func (b *base) read(ctx context.Context, p []byte, at int64) error {
	return fault.Op(b.from.ReadAt(ctx, memory.NewBufferBytes(p), at), "copy columns of %s", b.from.Location())
}

// section reads an index; nil for an absent one.
func (b *base) section(ctx context.Context, at *int64, length *int32) ([]byte, error) {
	if at == nil || length == nil {
		return nil, nil
	}
	if *at < 0 || *length <= 0 || *length > maxIndexBytes || *at+int64(*length) > b.from.Size() {
		return nil, fault.New(fault.Corrupt, "the footer of %s has an index outside the file", b.from.Location())
	}
	out := make([]byte, *length)
	return out, b.read(ctx, out, *at)
}

// maxBloomHeader bounds the size of the header of a bloom filter.
const maxBloomHeader = 64

// bloom reads a bloom filter. Older writers leave its length out of the footer.
func (b *base) bloom(ctx context.Context, at *int64, length *int32) ([]byte, error) {
	if at == nil || length != nil {
		return b.section(ctx, at, length)
	}
	if *at < 0 || *at >= b.from.Size() {
		return nil, fault.New(fault.Corrupt, "the footer of %s has a bloom filter outside the file", b.from.Location())
	}
	head := make([]byte, min(maxBloomHeader, b.from.Size()-*at))
	if err := b.read(ctx, head, *at); err != nil {
		return nil, err
	}
	size, ok := bloomSize(head)
	if !ok {
		return nil, fault.New(fault.Corrupt, "a bloom filter of %s cannot be read", b.from.Location())
	}
	return b.section(ctx, at, &size)
}

// bloomSize returns the size of a bloom filter with its header, in Thrift's compact protocol: the
// number of bytes of the filter, and three unions of empty structs.
func bloomSize(head []byte) (int32, bool) {
	if len(head) == 0 || head[0] != 0x15 {
		return 0, false
	}
	bits, n := binary.Varint(head[1:])
	if n <= 0 || bits < 0 || bits > maxIndexBytes {
		return 0, false
	}
	at := 1 + n
	for depth := 1; depth > 0; at++ {
		switch {
		case at == len(head):
			return 0, false
		case head[at] == 0:
			depth--
		case head[at]&0xf == 0xc && head[at]>>4 > 0:
			depth++
		default:
			return 0, false
		}
	}
	return int32(int64(at) + bits), true
}
