package tensor

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// Sizes are the offsets and lengths of the tensors of one batch.
type Sizes struct {
	Rows    int   // of the batch
	Bytes   int64 // of the block
	Scratch int64 // an upper bound of the bytes that Fill allocates
	places  []place
}

// place is a tensor in a block.
type place struct {
	offset int64
	rows   int // the length of the first dimension
}

// columnScratch is what Fill allocates for each column: chunks of numbers to be cast and packed, and small values.
const columnScratch = 3 * chunkBytes

// Size computes the size of a batch's block. It fails if the block cannot be filled because of a null, an
// index or the offsets of lists: nulls are invalid or corrupt, as the plan says. Fill may still
// fail because of values. Size itself allocates up to Scratch bytes.
func (l *Layout) Size(batch arrow.RecordBatch) (Sizes, error) {
	if err := l.check(batch); err != nil {
		return Sizes{}, err
	}
	s := Sizes{Rows: int(batch.NumRows()), places: make([]place, len(l.tensors))}
	distinct := make([]int, len(l.entries))
	for i, e := range l.entries {
		rows, err := e.check(batch)
		if err != nil {
			return Sizes{}, err
		}
		distinct[i] = rows
	}
	elements := make([]int, len(l.columns))
	for i, c := range l.columns {
		var scratch int64
		var err error
		if elements[i], scratch, err = c.size(batch); err != nil {
			return Sizes{}, err
		}
		s.Scratch += scratch
	}
	end := l.headerBytes()
	for i, t := range l.tensors {
		rows := s.Rows
		switch t.rows {
		case batchRows:
		case batchEnds:
			rows++
		case distinctRows:
			rows = distinct[t.of]
		case distinctEnds:
			rows = distinct[t.of] + 1
		case elementRows:
			rows = elements[t.of]
		}
		s.places[i] = place{end, rows}
		end = aligned(end + int64(rows)*int64(t.rowBytes()))
	}
	s.Bytes = end
	return s, nil
}

func aligned(n int64) int64 { return (n + Alignment - 1) / Alignment * Alignment }

// check refuses batches of other schemas, since columns are read by their types.
func (l *Layout) check(batch arrow.RecordBatch) error {
	if int(batch.NumCols()) != l.schema.NumFields() {
		return fault.New(fault.Internal, "a batch of %d columns is not of the schema of its layout", batch.NumCols())
	}
	for i, f := range l.schema.Fields() {
		if a := batch.Column(i); !arrow.TypeEqual(a.DataType(), f.Type) || a.Len() != int(batch.NumRows()) {
			return fault.New(fault.Internal, "column %q of a batch is %d of type %s, not of the schema of its layout", f.Name, a.Len(), a.DataType())
		}
	}
	return nil
}

// check returns the number of distinct rows of an entry. Each index must refer to one of them.
func (e entry) check(batch arrow.RecordBatch) (int, error) {
	d := batch.Column(e.field).(*array.Dictionary) //nolint:forcetypeassert // the types were compared with the schema
	rows := d.Dictionary().Len()
	inside := d.Indices().NullN() == 0
	for _, index := range referencesOf(d) {
		inside = inside && uint32(index) < uint32(rows)
	}
	if !inside {
		return 0, fault.New(fault.Corrupt, "column %s refers to rows that are not among the %d it came with", quoted(e.name, true), rows)
	}
	return rows, nil
}

// size returns the number of elements of a column's lists, and the scratch memory of the column, after it has
// checked the column's nulls.
func (c *column) size(batch arrow.RecordBatch) (int, int64, error) {
	v, err := c.view(batch)
	if err != nil {
		return 0, 0, err
	}
	defer v.release()
	if c.Nulls != Filled && c.Nulls != Empty && v.hasNull() {
		return 0, 0, refuseNull(c.Name, c.Nulls)
	}
	scratch := columnScratch + v.scratch + c.gatherScratch(v.elements)
	if c.Form == Values {
		return 0, scratch + c.onceBytes(v, 0), nil
	}
	if v.elementNulls.bits != nil && c.ElementNulls != Filled {
		for from, to := range v.ranges(c) {
			if v.elementNulls.slice(from, to-from).nulls > 0 {
				return 0, 0, refuseNull(c.Name+"[]", c.ElementNulls)
			}
		}
	}
	elements := v.countElements()
	if c.Form == Lists && elements > math.MaxInt32 {
		return 0, 0, fault.New(fault.Exhausted, "the lists of column %s have %d elements, more than their offsets can count", quoted(c.Name, true), elements).
			WithRemedy("ask for a smaller batch_rows")
	}
	return elements, scratch + c.onceBytes(v, elements), nil
}

// countElements returns the number of elements of the tensors' lists; 0 for other forms.
func (v *view) countElements() int {
	switch o := v.offsets.(type) {
	case offsetsOf[int32]:
		return count(o, v)
	case offsetsOf[int64]:
		return count(o, v)
	default:
		return 0
	}
}

func count[O int32 | int64](offsets []O, v *view) (elements int) {
	if !v.expanded {
		for from, to := range v.nulls.runs {
			elements += int(offsets[to] - offsets[from])
		}
		return elements
	}
	for _, row := range v.references {
		if !v.nulls.isNull(int(row)) {
			elements += int(offsets[row+1] - offsets[row])
		}
	}
	return elements
}

// hasNull reports whether one of the tensors' rows is null.
func (v *view) hasNull() bool {
	if v.nulls.nulls == 0 || !v.expanded {
		return v.nulls.nulls > 0
	}
	return slices.ContainsFunc(v.references, func(row int32) bool { return v.nulls.isNull(int(row)) })
}

// ranges yields the ranges of elements in the tensors' rows that are not null.
func (v *view) ranges(c *column) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from, to := range v.runs {
			if v.offsets == nil {
				from, to = from*c.Width, to*c.Width
			} else {
				first := v.offsets.at(0)
				from, to = v.offsets.at(from)-first, v.offsets.at(to)-first
			}
			if !yield(from, to) {
				return
			}
		}
	}
}

// refuseNull returns the error of a null that has no fill.
func refuseNull(name string, rule Nulls) error {
	switch rule {
	case Corrupt:
		return fault.New(fault.Corrupt, "column %s contains a null, which its schema excludes", quoted(name, true))
	case Refused:
		return fault.New(fault.Invalid, "column %s contains a null", quoted(name, true)).WithRemedy(
			"say what it becomes: nulls={%s: value}, or {'fill': value} for text; or set a default for rows without a match on the server",
			quoted(name, true))
	case Filled, Empty:
		return nil
	default:
		return fault.New(fault.Internal, "column %s has no rule for nulls", quoted(name, true))
	}
}
