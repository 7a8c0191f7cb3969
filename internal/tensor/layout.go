package tensor

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// Alignment is the number of bytes of which the offset of each tensor, and the size of a block, is a multiple.
const Alignment = 256

// Layout is a plan that fits a schema. It is immutable, and safe for concurrent use.
type Layout struct {
	schema  *arrow.Schema
	columns []*column
	entries []entry
	expands bool     // there are no tensors of distinct rows; see Compile
	tensors []tensor // in the order of their offsets
	fixed   int      // the number of tensors whose size depends only on the number of rows; they are first
}

// Expands reports whether blocks have the rows of plain batches, although the schema has indexed columns (see
// Compile).
func (l *Layout) Expands() bool { return l.expands }

// entry is an indexed column of the schema.
type entry struct {
	name    string
	field   int // in the schema
	inverse int // the tensor of indices, unless the layout expands
}

// column is a planned column, found in the schema.
type column struct {
	Column
	field    int  // in the schema
	child    int  // in the struct of an indexed column
	entry    int  // the index of the entry; -1 for a plain column
	expanded bool // its tensors have the rows of the batch, although it is in an entry
	source   *source
	result   DType // of the conversion, before a cast
	leaf     arrow.DataType
	scale    int // of decimals
	offsets  int // tensors; -1 if there is none
	values   int
	mask     int
	packedAt int // bytes before the column in a row of its matrix
	// padding says whether the column writes the bytes after its tensor of values. One column of a pack does.
	padding    bool
	vocabulary *Vocabulary
}

// tensor is the type and shape of a tensor.
type tensor struct {
	dtype DType
	width int // elements per row
	rows  rowCount
	of    int // the entry or column that determines the number of rows
}

// rowCount says how many rows a tensor has.
type rowCount uint8

const (
	batchRows    rowCount = iota // the rows of the batch
	batchEnds                    // one more
	distinctRows                 // the distinct rows of an entry
	distinctEnds                 // one more
	elementRows                  // the elements of the lists of a column
)

// varies reports whether the number of rows is not determined by the rows of the batch.
func (r rowCount) varies() bool { return r == distinctRows || r == distinctEnds || r == elementRows }

// rowBytes returns the bytes of a row.
func (t tensor) rowBytes() int { return t.width * t.dtype.Size() }

// isDistinct reports whether the tensors of a column have the distinct rows of its entry.
func (c *column) isDistinct() bool { return c.entry >= 0 && !c.expanded }

// isText reports whether values are strings, as opposed to bytes.
func (c *column) isString() bool {
	return c.source.id == arrow.STRING || c.source.id == arrow.LARGE_STRING || c.source.id == arrow.STRING_VIEW
}

// planned is a tensor, and where its index is kept.
type planned struct {
	tensor
	index []*int
}

// arrange places the tensors of all columns: first those of a size that follows from the number of rows,
// then the others; both in the order of the plan.
func (l *Layout) arrange(packs [][]int) {
	var all []planned
	for i, c := range l.columns {
		if c.isDistinct() && (i == 0 || l.columns[i-1].entry != c.entry) {
			all = append(all, planned{tensor{Int32, 1, batchRows, 0}, []*int{&l.entries[c.entry].inverse}})
		}
		all = append(all, c.tensors(i)...)
	}
	for _, columns := range packs {
		all = append(all, l.matrix(columns))
	}
	for _, varies := range []bool{false, true} {
		for _, t := range all {
			if t.rows.varies() != varies {
				continue
			}
			for _, index := range t.index {
				*index = len(l.tensors)
			}
			l.tensors = append(l.tensors, t.tensor)
		}
		if !varies {
			l.fixed = len(l.tensors)
		}
	}
}

// tensors returns the tensors of a column, which is number i. The values of a packed column are in a matrix.
func (c *column) tensors(i int) []planned {
	rows, ends := batchRows, batchEnds
	if c.isDistinct() {
		rows, ends = distinctRows, distinctEnds
	}
	var out []planned
	switch {
	case c.Form.jagged():
		position := Int32
		if c.Form == LargeLists {
			position = Int64
		}
		out = append(out, planned{tensor{position, 1, ends, c.entry}, []*int{&c.offsets}},
			planned{tensor{c.DType, 1, elementRows, i}, []*int{&c.values}})
	case c.padding:
		out = append(out, planned{tensor{c.DType, c.width(), rows, c.entry}, []*int{&c.values}})
	}
	if c.Mask {
		out = append(out, planned{tensor{Bool, 1, rows, c.entry}, []*int{&c.mask}})
	}
	return out
}

// matrix returns the tensor of a pack, and sets where its columns begin.
func (l *Layout) matrix(columns []int) planned {
	first := l.columns[columns[0]]
	out := planned{tensor: tensor{first.DType, 0, batchRows, first.entry}}
	if first.isDistinct() {
		out.rows = distinctRows
	}
	for _, at := range columns {
		c := l.columns[at]
		c.packedAt = out.rowBytes()
		out.width += c.width()
		out.index = append(out.index, &c.values)
	}
	first.padding = true
	return out
}

// rowBytes returns the bytes of a row.
func (c *column) rowBytes() int { return c.width() * c.DType.Size() }

// width returns the elements per row.
func (c *column) width() int {
	if c.Form == FixedLists {
		return c.Width
	}
	return 1
}
