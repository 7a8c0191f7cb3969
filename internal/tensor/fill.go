package tensor

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
)

// Magic begins each block: the form of its header.
const Magic = "PTB1"

// headerFixed and headerPlace are the bytes of a header before the places of tensors, and of each place.
const headerFixed, headerPlace = 24, 16

// headerBytes returns the offset of the first tensor.
func (l *Layout) headerBytes() int64 {
	return aligned(int64(headerFixed + headerPlace*(len(l.tensors)-l.fixed)))
}

// Fill writes every byte of a batch's block, on idle cores too. dst has sizes.Bytes bytes, and begins at a multiple of 8. sizes
// must be those of the batch. If Fill fails, the contents of dst are undefined.
func (l *Layout) Fill(batch arrow.RecordBatch, sizes Sizes, dst []byte, on *cores.Cores) error {
	if int64(len(dst)) != sizes.Bytes || len(sizes.places) != len(l.tensors) || sizes.Rows != int(batch.NumRows()) {
		return fault.New(fault.Internal, "fill a block of %d bytes for %d rows with a batch of %d rows: the sizes are not its own",
			len(dst), sizes.Rows, batch.NumRows())
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%8 != 0 {
		return fault.New(fault.Internal, "the memory of a block begins at an odd address")
	}
	f := filling{l, batch, sizes, dst, on}
	f.header()
	for _, e := range l.entries {
		if err := f.inverse(e); err != nil {
			return err
		}
	}
	failures := make([]error, len(l.columns))
	err := on.Groups(len(l.columns), dividedBytes(), f.bytesOf, func(i int) { failures[i] = f.column(l.columns[i]) })
	if err != nil {
		return err
	}
	if failed := slices.IndexFunc(failures, func(err error) bool { return err != nil }); failed >= 0 {
		return failures[failed]
	}
	return nil
}

// filling is one call of Fill.
type filling struct {
	*Layout
	batch arrow.RecordBatch
	sizes Sizes
	dst   []byte
	on    *cores.Cores
}

// bytesOf returns the bytes that column i writes.
func (f filling) bytesOf(i int) int {
	c := f.columns[i]
	return f.sizes.places[c.values].rows * c.rowBytes()
}

func (f filling) header() {
	b := f.dst[:f.headerBytes()]
	clear(b)
	copy(b, Magic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(f.tensors)-f.fixed))
	binary.LittleEndian.PutUint64(b[8:], uint64(f.sizes.Rows))
	binary.LittleEndian.PutUint64(b[16:], uint64(f.sizes.Bytes))
	for i, p := range f.sizes.places[f.fixed:] {
		at := b[headerFixed+headerPlace*i:]
		binary.LittleEndian.PutUint64(at, uint64(p.offset))
		binary.LittleEndian.PutUint64(at[8:], uint64(p.rows))
	}
}

// tensor returns the memory of a tensor, and clears the bytes after it if padding says so. The tensor must have a number of rows, which
// is not so if sizes are those of another batch.
func (f filling) tensor(at, rows int, padding bool) ([]byte, error) {
	p, bytes := f.sizes.places[at], int64(f.tensors[at].rowBytes())
	end := p.offset + int64(p.rows)*bytes
	if p.rows != rows {
		return nil, fault.New(fault.Internal, "a tensor has %d rows, and its sizes say %d", rows, p.rows)
	}
	if padding {
		clear(f.dst[end:aligned(end)])
	}
	return f.dst[p.offset:end], nil
}

// inverse writes the indices of an entry, unless its columns are expanded.
func (f filling) inverse(e entry) error {
	if f.expands {
		return nil
	}
	d := f.batch.Column(e.field).(*array.Dictionary) //nolint:forcetypeassert // Size has checked the types
	dst, err := f.tensor(e.inverse, f.sizes.Rows, true)
	if err == nil {
		copy(as[int32](dst), referencesOf(d))
	}
	return err
}

func (f filling) column(c *column) error {
	v, err := c.view(f.batch)
	if err != nil {
		return err
	}
	defer v.release()
	if c.mask >= 0 {
		dst, err := f.tensor(c.mask, f.rowsOf(v), true)
		if err != nil {
			return err
		}
		v.mask(dst)
	}
	w := newWriter(c, v, !c.Form.jagged() && c.rowBytes() != f.tensors[c.values].rowBytes())
	switch c.Form {
	case Lists:
		err = lists[int32](f, c, v, w)
	case LargeLists:
		err = lists[int64](f, c, v, w)
	case Values, FixedLists:
		err = f.rows(c, v, w)
	}
	if err != nil {
		return err
	}
	return w.err()
}

// rowsOf returns the number of rows of the tensors of a column.
func (f filling) rowsOf(v *view) int {
	if v.expanded {
		return f.sizes.Rows
	}
	return v.rows
}

// mask writes a boolean for each row of the tensors.
func (v *view) mask(dst []byte) {
	switch {
	case v.nulls.bits == nil:
		repeat(dst, []byte{1})
	case !v.expanded:
		unpack(dst, v.nulls.bits, v.nulls.start)
	default:
		for i, row := range v.references {
			dst[i] = byte(bitsAt(v.nulls.bits, v.nulls.start+int(row)) & 1)
		}
	}
}

// lists writes offsets and values.
func lists[O int32 | int64](f filling, c *column, v *view, w *writer) error {
	dst, err := f.tensor(c.offsets, f.rowsOf(v)+1, true)
	if err != nil {
		return err
	}
	source, _ := v.offsets.(offsetsOf[O])
	ends := as[O](dst)
	elements := endsOf(ends, source, v)
	dst, err = f.tensor(c.values, elements, true)
	if err != nil {
		return err
	}
	if from := w.convertedElements(v, elements); from != nil {
		l := expandedLists[O]{v.references, source, from, c.DType.Size(), dst, ends}
		f.divided(len(l.rows), len(dst)/max(1, len(l.rows)), l.copy)
		return nil
	}
	if v.nulls.bits == nil && c.isCopied(v) && elements > 0 {
		f.copy(dst, fixedBytes(v.elements, c.source.bytes))
		return nil
	}
	for from, to := range v.ranges(c) {
		bytes := (to - from) * c.DType.Size()
		w.write(dst[:bytes], from)
		dst = dst[bytes:]
	}
	return nil
}

// rebase writes offsets that begin at 0, where null lists have no elements, and returns the last one.
func rebase[O int32 | int64](dst, offsets []O, nulls validity) int {
	if len(offsets) == 0 {
		dst[0] = 0
		return 0
	}
	if nulls.bits == nil {
		first := offsets[0]
		for i, offset := range offsets {
			dst[i] = offset - first
		}
		return int(dst[len(dst)-1])
	}
	var end O
	dst[0] = 0
	for i, next := range offsets[1:] {
		if !nulls.isNull(i) {
			end += next - offsets[i]
		}
		dst[i+1] = end
	}
	return int(end)
}

// rows writes a column with the same number of elements in each row: to its tensor, or to its columns of a matrix.
func (f filling) rows(c *column, v *view, w *writer) error {
	dst, err := f.tensor(c.values, f.rowsOf(v), c.padding)
	if err != nil {
		return err
	}
	width, stride := c.rowBytes(), f.tensors[c.values].rowBytes()
	if c.expanded {
		f.expandedRows(dst, c, v, w)
		return nil
	}
	if width == stride {
		if c.isCopied(v) && len(dst) > 0 {
			f.copy(dst, fixedBytes(v.elements, c.source.bytes))
		} else {
			w.writeRows(dst, 0, v)
		}
		return nil
	}
	if width > chunkBytes {
		for row := range v.rows {
			w.writeRows(dst[row*stride+c.packedAt:][:width], row, v)
		}
		return nil
	}
	for row := 0; row < v.rows; {
		n := min(chunkBytes/width, v.rows-row)
		w.writeRows(w.rows[:n*width], row, v)
		scatter(dst[row*stride+c.packedAt:], stride, w.rows[:n*width], width)
		row += n
	}
	return nil
}

// err returns the error of the values that could not be converted.
func (w *writer) err() error {
	name := w.column.Name
	if w.column.Form != Values {
		name += "[]"
	}
	name = quoted(name, true)
	switch found := &w.found; {
	case found.outside:
		return fault.New(fault.Corrupt, "column %s refers to values that are not in its dictionary", name)
	case found.tooWide:
		return fault.New(fault.Corrupt, "column %s contains a decimal with more digits than its type", name)
	case found.unknown != nil:
		return fault.New(fault.Invalid, "column %s contains values that are not in its vocabulary: %s", name, strings.Join(found.unknown, ", ")).
			WithRemedy("add them, or set a code for unknown values: Vocabulary(values, unknown=code)")
	case found.unfit:
		return fault.New(fault.Invalid, "column %s contains a number that %s cannot hold", name, w.column.DType).
			WithRemedy("leave the column out of `cast`, or cast it to another dtype")
	default:
		return nil
	}
}
