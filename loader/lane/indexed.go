package lane

import (
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// IndexedColumn is an output column that is sent as a dictionary column. Its dictionary has the
// distinct staging rows to which the rows of a batch refer, in the order of the first reference to
// each (docs/spec/wire.md).
type IndexedColumn struct {
	At      int      // position in the schema
	Index   int      // dictionary column of the ranges' batches
	Columns []Column // where the fields of its struct come from, in the order of the fields; all of them are in that dictionary column
}

// distinctRows finds the distinct staging rows of one indexed column in each batch. Its hash table
// has two entries for each row of the batch, so the memory of the hash table does not depend on the
// size of the staging table.
type distinctRows struct {
	dictionaries []arrow.ArrayData // the dictionaries to which the batch's rows refer
	rows         []int32           // the distinct rows, each in its dictionary
	segments     []batch.Segment
	table        []entry      // open addressing; its length is a power of two
	shift        int          // by how many bits a hash is shifted to get a position in table
	sent         int64        // distinct rows of all batches so far
	requests     *requestRows // if not nil, rows are identified by the key of their request, otherwise by their position in a dictionary
}

// unmatched stands for row 0 of any dictionary, which has the values of rows without a match. These
// values are the same in all dictionaries of a staging table.
const unmatched = 1 << 63

// entry is a staging row to which the batch refers. The zero entry is free.
type entry struct {
	row  uint64 // the number of the dictionary, from 1, in the high half, and the row in the low half; or unmatched
	slot int32  // position among the distinct rows
}

// spread is 2^64 divided by the golden ratio: it spreads consecutive keys
// (Knuth, The Art of Computer Programming, volume 3, section 6.4).
const spread = 0x9E3779B97F4A7C15

// tableSize returns the number of table entries for a batch.
func tableSize(rows int64) int64 { return 1 << bits.Len64(uint64(2*rows)) }

// begin starts a new batch.
func (d *distinctRows) begin(rows int) {
	size := int(tableSize(int64(rows)))
	d.shift = 64 - bits.Len(uint(size-1))
	if len(d.table) == size {
		clear(d.table)
	} else {
		d.table = make([]entry, size)
	}
	d.dictionaries, d.rows, d.segments = d.dictionaries[:0], d.rows[:0], d.segments[:0]
	if d.requests != nil {
		d.requests.begin(size)
	}
}

// add maps references to rows of a dictionary to positions among the distinct rows. values has the
// values of these rows at the given places. It is the dictionary itself or a copy of some of its
// rows.
func (d *distinctRows) add(dictionary arrow.ArrayData, references []int32, values *array.Struct, places, slots []int32) error {
	number := uint64(d.numberOf(dictionary)) << 32
	first := len(d.rows)
	last, slot := int32(-1), int32(-1)
	if d.requests != nil {
		d.requests.next(values)
	}
	for i, r := range references {
		if r != last { // rows of one request are adjacent
			row := number | uint64(uint32(r))
			var err error
			last = r
			if d.requests != nil {
				if slot, err = d.requestSlot(row, places[i]); err != nil {
					return err
				}
			} else {
				if r == 0 {
					row = unmatched
				}
				slot = d.slot(row, places[i])
			}
		}
		slots[i] = slot
	}
	if more := len(d.rows) - first; more > 0 {
		d.segments = append(d.segments, batch.Segment{Values: values, Rows: more})
	}
	return nil
}

// numberOf numbers the dictionaries of a batch, from 1.
func (d *distinctRows) numberOf(dictionary arrow.ArrayData) int {
	for i, known := range d.dictionaries {
		if known == dictionary {
			return i + 1
		}
	}
	d.dictionaries = append(d.dictionaries, dictionary)
	return len(d.dictionaries)
}

// slot returns the position of a row among the distinct rows. If the row is new, slot adds it with
// its place.
func (d *distinctRows) slot(row uint64, place int32) int32 {
	mask := uint64(len(d.table) - 1)
	for at := row * spread >> d.shift; ; at = (at + 1) & mask {
		switch e := &d.table[at]; e.row {
		case row:
			return e.slot
		case 0:
			*e = entry{row: row, slot: int32(len(d.rows))}
			d.rows = append(d.rows, place)
			return e.slot
		}
	}
}

// end sets the row numbers of each segment, and returns the segments. The row numbers are valid
// until the next call of begin.
func (d *distinctRows) end() []batch.Segment {
	from := 0
	for i := range d.segments {
		s := &d.segments[i]
		s.Indices = d.rows[from : from+s.Rows : from+s.Rows]
		from += s.Rows
	}
	d.sent += int64(from)
	return d.segments
}

// indexing is an indexed column of the current batch: for each row of the batch the position of its
// distinct row, and the sources of the fields of the distinct rows.
type indexing struct {
	field  arrow.Field // only its name and type
	slots  *memory.Buffer
	fields []source
}

// index finds the distinct rows of one column of the batch. The memory for this is already
// reserved.
func (ct *cutter) index(of IndexedColumn, d *distinctRows, runs []run, rows int) (*indexing, error) {
	d.begin(rows)
	x := &indexing{slots: memory.NewResizableBuffer(ct.options.Memory)}
	x.slots.Resize(rows * arrow.Int32SizeBytes)
	slots := arrow.Int32Traits.CastFromBytes(x.slots.Bytes())
	for _, one := range runs {
		column := one.batch.Column(of.Index).(*array.Dictionary)
		places := column.Indices().(*array.Int32).Int32Values()[one.from : one.from+one.rows]
		dictionary, references := one.origin(of.Index, column, places)
		if err := d.add(dictionary, references, column.Dictionary().(*array.Struct), places, slots[:one.rows]); err != nil {
			x.release()
			return nil, err
		}
		slots = slots[one.rows:]
	}
	return x, nil
}

// gather sets the sources of the fields of the distinct rows.
func (x *indexing) gather(field arrow.Field, of IndexedColumn, distinct *rowSet) error {
	x.field = field
	for k, inside := range x.rowType().Fields() {
		one, err := of.Columns[k].source(inside, distinct)
		if err != nil {
			return err
		}
		x.fields = append(x.fields, one)
	}
	return nil
}

// origin returns the dictionary with the staging rows of a column, and the references to these
// rows. If the rows were copied, it returns the original dictionary and references.
func (x run) origin(index int, column *array.Dictionary, places []int32) (arrow.ArrayData, []int32) {
	if x.origins == nil || x.origins[index].dictionary == nil {
		return column.Data().Dictionary(), places
	}
	return x.origins[index].dictionary, x.origins[index].references
}

// indexedBytes returns the bytes that index takes for a number of rows.
func (ct *cutter) indexedBytes(columns []IndexedColumn, rows int64) int64 {
	bytes := int64(len(columns)) * (batch.AllocatedSize(ct.options.Memory, rows*int64(arrow.Int32SizeBytes)) + tableSize(rows)*int64(unsafe.Sizeof(entry{})))
	for _, x := range columns {
		if ct.options.Requests != nil && x.Index == ct.options.Requests.Index {
			bytes += requestBytes(rows)
		}
	}
	return bytes
}

func (x *indexing) dictionaryType() *arrow.DictionaryType {
	return x.field.Type.(*arrow.DictionaryType)
}

func (x *indexing) rowType() *arrow.StructType {
	return x.dictionaryType().ValueType.(*arrow.StructType)
}

func (x *indexing) size(g *batch.Gatherer) (int64, error) {
	bytes := int64(0)
	for i := range x.fields {
		n, err := x.fields[i].size(g)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// column returns the indexed column: the indices, and as its dictionary the distinct rows.
func (x *indexing) column(g *batch.Gatherer) (arrow.Array, error) {
	children := make([]arrow.Array, 0, len(x.fields))
	defer func() { release(children) }()
	for i := range x.fields {
		child, err := x.fields[i].column(g)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	indices := int32Array(x.slots)
	defer indices.Release()
	return indexedArray(x.dictionaryType(), indices, children)
}

// int32Array returns a buffer of 32-bit integers as an array without nulls.
func int32Array(of *memory.Buffer) arrow.Array {
	data := array.NewData(arrow.PrimitiveTypes.Int32, of.Len()/arrow.Int32SizeBytes, []*memory.Buffer{nil, of}, nil, 0, 0)
	defer data.Release()
	return array.NewInt32Data(data)
}

// indexedArray returns an indexed column, given its indices and the fields of the rows to which the
// indices refer.
func indexedArray(dt *arrow.DictionaryType, indices arrow.Array, fields []arrow.Array) (arrow.Array, error) {
	values, err := array.NewStructArrayWithFields(fields, dt.ValueType.(*arrow.StructType).Fields())
	if err != nil {
		return nil, err
	}
	defer values.Release()
	return array.NewDictionaryArray(dt, indices, values), nil
}

func (x *indexing) release() { x.slots.Release() }
