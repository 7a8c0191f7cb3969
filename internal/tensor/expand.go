package tensor

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

// convertedElements returns the elements of all lists of an expanded column, after their conversion. It returns nil if each
// list must be converted.
func (w *writer) convertedElements(v *view, elements int) []byte {
	c := w.column
	if c.expanded && c.isCopied(v) && v.elements.Len() > 0 {
		return fixedBytes(v.elements, c.source.bytes)
	}
	return w.converted(c.onceBytes(v, elements), v.elements.Len()*c.DType.Size(), func(once []byte) { w.write(once, 0) })
}

// converted returns memory for as many bytes after it was written; nil if capacity is 0, or if there were findings, which
// it forgets.
func (w *writer) converted(capacity int64, bytes int, write func(once []byte)) []byte {
	once := allocated(capacity)
	if once == nil {
		return nil
	}
	once = once[:bytes]
	if write(once); w.found.any() {
		w.found = findings{}
		return nil
	}
	return once
}

// allocated returns aligned memory, nil if the size is 0.
func allocated(bytes int64) []byte {
	if bytes == 0 {
		return nil
	}
	return as[byte](make([]uint64, bytes/8))
}

// expandedRows writes the rows of an expanded column to dst, its tensor or matrix.
func (f filling) expandedRows(dst []byte, c *column, v *view, w *writer) {
	width, stride := c.rowBytes(), f.tensors[c.values].rowBytes()
	if width == 0 || len(dst) == 0 {
		return
	}
	dst = dst[c.packedAt:]
	var from []byte
	if c.isCopied(v) {
		from = fixedBytes(v.elements, c.source.bytes)
	} else {
		from = w.converted(c.onceBytes(v, 0), v.rows*width, func(once []byte) { w.writeRows(once, 0, v) })
	}
	if from == nil {
		for i, row := range v.references {
			w.writeRows(dst[i*stride:][:width], int(row), v)
		}
		return
	}
	f.divided(len(v.references), width, func(first, end int) {
		gatherRows(dst[first*stride:], stride, from, width, v.references[first:end])
	})
}

// expandedLists are lists to be copied for the rows of a batch.
type expandedLists[O int32 | int64] struct {
	rows     []int32 // of the distinct rows, for each row of the batch
	offsets  []O     // of the distinct rows
	elements []byte  // of the distinct rows, each with a size in bytes
	size     int
	dst      []byte // the elements of the copies
	ends     []O    // the offsets of the copies
}

// copy copies the lists of a range of the batch's rows.
func (l *expandedLists[O]) copy(first, end int) {
	for i := first; i < end; i++ {
		from, to := int(l.ends[i])*l.size, int(l.ends[i+1])*l.size
		copy(l.dst[from:to], l.elements[int(l.offsets[l.rows[i]]-l.offsets[0])*l.size:])
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
