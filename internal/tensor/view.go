package tensor

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// view is one column of one batch, while the batch is valid. The rows of a column that is in an entry are
// the distinct rows.
type view struct {
	rows int
	// references has a distinct row for each row of the batch, if the column is expanded.
	references []int32
	expanded   bool
	nulls      validity // of the rows
	// offsets of rows+1 lists; nil for other forms, and if there are no rows.
	offsets offsets
	// elements are the values of rows; for lists, those from the first element of the first row to the last
	// element of the last row.
	elements arrow.Array
	// elementNulls are the nulls of elements.
	elementNulls validity
	sliced       arrow.Array // the slice that was made for elements; nil if there is none
	scratch      int64       // bytes that were allocated for bits
}

// offsets are the positions of lists.
type offsets interface {
	at(i int) int
}

// offsetsOf are offsets of 32 or 64 bits.
type offsetsOf[O int32 | int64] []O

func (o offsetsOf[O]) at(i int) int { return int(o[i]) }

// view returns a column of a batch of the layout's schema. Release it after use.
func (c *column) view(batch arrow.RecordBatch) (*view, error) {
	v, a := &view{}, batch.Column(c.field)
	var above validity // the nulls of the struct that contains the column
	if c.entry >= 0 {
		d := a.(*array.Dictionary)             //nolint:forcetypeassert // the types were compared with the schema
		rows := d.Dictionary().(*array.Struct) //nolint:forcetypeassert // see indexedRows
		a, above = rows.Field(c.child), validityOf(rows)
		if v.expanded = c.expanded; v.expanded {
			v.references = referencesOf(d)
		}
	}
	v.rows = a.Len()
	switch c.Form {
	case Values:
		v.elements = storedIn(a)
	case FixedLists:
		list := a.(*array.FixedSizeList) //nolint:forcetypeassert // see above
		from := list.Data().Offset() * c.Width
		v.slice(list.ListValues(), from, from+list.Len()*c.Width)
	case Lists, LargeLists:
		if err := v.list(c, a.(array.ListLike)); err != nil { //nolint:forcetypeassert // see above
			return nil, err
		}
	}
	v.elementNulls = validityOf(v.elements)
	if d, ok := v.elements.(*array.Dictionary); ok && d.Dictionary().NullN() > 0 {
		v.scratch += int64(memoryOfBits(d.Len()))
		v.elementNulls = withNullValues(d, v.elementNulls)
	}
	if c.Form == Values {
		v.elementNulls = v.both(v.elementNulls, above)
		v.nulls = v.elementNulls
	} else {
		v.nulls = v.both(validityOf(a), above)
	}
	return v, nil
}

// both returns the validity of values that are null in either.
func (v *view) both(a, b validity) validity {
	if a.bits != nil && b.bits != nil {
		v.scratch += int64(memoryOfBits(a.count))
	}
	return a.and(b)
}

// slice sets the elements to a range of values.
func (v *view) slice(values arrow.Array, from, to int) {
	if from != 0 || to != values.Len() {
		v.sliced = array.NewSlice(values, int64(from), int64(to))
		values = v.sliced
	}
	v.elements = storedIn(values)
}

// release releases what the view made.
func (v *view) release() {
	if v.sliced != nil {
		v.sliced.Release()
	}
}

// list sets the offsets and elements of a column of lists, after it has checked them.
func (v *view) list(c *column, a array.ListLike) error {
	var first, last int
	if a.Len() > 0 {
		b, start := a.Data().Buffers()[1].Bytes(), a.Data().Offset()
		if c.Form == Lists {
			v.offsets = offsetsOf[int32](as[int32](b)[start:][:a.Len()+1])
		} else {
			v.offsets = offsetsOf[int64](as[int64](b)[start:][:a.Len()+1])
		}
		first, last = v.offsets.at(0), v.offsets.at(a.Len())
		if first < 0 || last < first || last > a.ListValues().Len() || !ascending(v.offsets) {
			return fault.New(fault.Corrupt, "column %s contains lists outside of their elements", quoted(c.Name, true))
		}
	}
	v.slice(a.ListValues(), first, last)
	return nil
}

func ascending(o offsets) bool {
	switch o := o.(type) {
	case offsetsOf[int32]:
		return sorted(o)
	case offsetsOf[int64]:
		return sorted(o)
	default:
		return true
	}
}

func sorted[O int32 | int64](o []O) bool {
	var falls O
	for i, end := range o[1:] {
		falls |= end - o[i] // negative if one of the differences is
	}
	return falls >= 0
}

// storedIn returns the storage of an array of an extension type.
func storedIn(a arrow.Array) arrow.Array {
	for {
		e, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = e.Storage()
	}
}

// referencesOf returns the distinct rows to which the rows of an indexed column refer.
func referencesOf(d *array.Dictionary) []int32 {
	return d.Indices().(*array.Int32).Int32Values() //nolint:forcetypeassert // see indexedRows
}

// withNullValues adds to the nulls of a dictionary's indices the values of the dictionary that are null.
func withNullValues(d *array.Dictionary, nulls validity) validity {
	bits := make([]byte, memoryOfBits(d.Len()))
	at, values, out := indicesOf(d), validityOf(d.Dictionary()), validity{bits: bits, count: d.Len()}
	for i := range d.Len() {
		if index, valid := at(i), !nulls.isNull(i); valid && (index >= uint64(values.count) || !values.isNull(int(index))) {
			bits[i>>3] |= 1 << (i & 7)
		} else {
			out.nulls++
		}
	}
	if out.nulls == 0 {
		out.bits = nil
	}
	return out
}

// outside is an index that no dictionary has.
const outside = 1 << 63

// indicesOf returns a function from positions to the indices of a dictionary array. The index under a null is arbitrary.
func indicesOf(d *array.Dictionary) func(i int) uint64 {
	switch a := d.Indices().(type) {
	case *array.Int8:
		return indices(a.Int8Values())
	case *array.Int16:
		return indices(a.Int16Values())
	case *array.Int32:
		return indices(a.Int32Values())
	case *array.Int64:
		return indices(a.Int64Values())
	case *array.Uint8:
		return indices(a.Uint8Values())
	case *array.Uint16:
		return indices(a.Uint16Values())
	case *array.Uint32:
		return indices(a.Uint32Values())
	case *array.Uint64:
		return indices(a.Uint64Values())
	default:
		return func(int) uint64 { return outside }
	}
}

// indices returns the values as unsigned integers; negative values are larger than any dictionary.
func indices[T whole](values []T) func(i int) uint64 {
	return func(i int) uint64 { return uint64(values[i]) }
}
