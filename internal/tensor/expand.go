package tensor

import "unsafe"

// An expanded column is converted before its values are gathered: each distinct row once, into memory that onceBytes
// counts. Values that need no conversion are gathered from the batch. Rows to which no row of the batch refers may have
// values that cannot be converted, so after a finding each row of the batch is converted, in order.

// runs yields the ranges [from, to) of consecutive rows of the column that are not null. If the column is expanded, the
// ranges are those to which the batch's rows refer, in order.
func (v *view) runs(yield func(from, to int) bool) {
	if !v.expanded {
		v.nulls.runs(yield)
		return
	}
	from, to := 0, 0
	for _, row := range v.references {
		row := int(row)
		switch {
		case v.nulls.isNull(row):
			continue
		case row == to && from < to:
			to++
			continue
		case from < to && !yield(from, to):
			return
		}
		from, to = row, row+1
	}
	if from < to {
		yield(from, to)
	}
}

// onceBytes returns the bytes of the distinct rows of an expanded column after their conversion, or, for
// lists, of their elements. It returns 0 if the rows are not converted once: if they need no conversion, or if
// there are more of them than rows in the batch. elements is the number of elements of lists in the batch.
func (c *column) onceBytes(v *view, elements int) int64 {
	count, most, bytes := v.rows, len(v.references), c.rowBytes()
	if c.Form.jagged() {
		count, most, bytes = v.elements.Len(), elements, c.DType.Size()
	}
	if !c.expanded || count > most || c.isCopied(v) {
		return 0
	}
	return int64(count*bytes+7) / 8 * 8
}

// isCopied reports whether the bytes of a column's values are those of its tensor.
func (c *column) isCopied(v *view) bool {
	bytes := c.Conversion == Same && c.source.bytes > 0 || c.Conversion == Ticks && c.source.bytes == 8
	nulls := v.elementNulls.bits != nil || !c.Form.jagged() && v.nulls.bits != nil
	return bytes && !nulls && !c.Dictionary && c.result == c.DType
}

// convertOnce converts the elements of all lists of an expanded column.
func (w *writer) convertOnce(v *view, elements int) {
	once := allocated(w.column.onceBytes(v, elements))
	if once == nil {
		return
	}
	once = once[:v.elements.Len()*w.column.DType.Size()]
	if w.write(once, 0); w.found.any() {
		w.found = findings{}
		return
	}
	w.once = once
}

// allocated returns aligned memory, nil if the size is 0.
func allocated(bytes int64) []byte {
	if bytes == 0 {
		return nil
	}
	return as[byte](make([]uint64, bytes/8))
}

// expandedRows is like rows for an expanded column.
func (f filling) expandedRows(c *column, v *view, w *writer) error {
	dst, err := f.tensor(c.values, f.sizes.Rows, c.padding)
	width, stride := c.rowBytes(), f.tensors[c.values].rowBytes()
	if err != nil || width == 0 || len(dst) == 0 {
		return err
	}
	dst = dst[c.packedAt:]
	if c.isCopied(v) {
		gatherRows(dst, stride, fixedBytes(v.elements, c.source.bytes), width, v.references)
		return nil
	}
	if once := allocated(c.onceBytes(v, 0)); once != nil {
		once = once[:v.rows*width]
		if w.writeRows(once, 0, v); !w.found.any() {
			gatherRows(dst, stride, once, width, v.references)
			return nil
		}
		w.found = findings{}
	}
	for i, row := range v.references {
		w.writeRows(dst[i*stride:][:width], int(row), v)
	}
	return nil
}

// gatherRows copies rows of a width in bytes to rows that are a stride apart.
func gatherRows(dst []byte, stride int, src []byte, width int, rows []int32) {
	switch elementBytes(width, stride) {
	case 1:
		gatherElements(dst, stride, src, rows)
	case 2:
		gatherElements(dst, stride, as[uint16](src), rows)
	case 4:
		gatherElements(dst, stride, as[uint32](src), rows)
	case 8:
		gatherElements(dst, stride, as[uint64](src), rows)
	default:
		for i, row := range rows {
			copy(dst[i*stride:][:width], src[int(row)*width:])
		}
	}
}

// gatherElements copies one element per row. The stride is a multiple of their size.
func gatherElements[T uint8 | uint16 | uint32 | uint64](dst []byte, stride int, src []T, rows []int32) {
	var t T
	out, step := as[T](dst), stride/int(unsafe.Sizeof(t))
	if step == 1 {
		out = out[:len(rows)]
		for i, row := range rows {
			out[i] = src[row]
		}
		return
	}
	for i, row := range rows {
		out[i*step] = src[row]
	}
}

// endsOf writes offsets that begin at 0, where null lists have no elements, and returns the last one.
func endsOf[O int32 | int64](dst, offsets []O, v *view) int {
	if !v.expanded || len(offsets) == 0 {
		return rebase(dst, offsets, v.nulls)
	}
	var end O
	dst[0] = 0
	for i, row := range v.references {
		if !v.nulls.isNull(int(row)) {
			end += offsets[row+1] - offsets[row]
		}
		dst[i+1] = end
	}
	return int(end)
}
