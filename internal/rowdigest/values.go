package rowdigest

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/zeebo/xxh3"

	"github.com/penstock/penstock/internal/fault"
)

// sum is a 128-bit hash.
type sum struct{ High, Low uint64 }

func sumOf(h *xxh3.Hasher) sum {
	s := h.Sum128()
	return sum{s.Hi, s.Lo}
}

// values hashes the values of one column, or of the children of a nested one. Each of its streams has an encoding that does not
// depend on batches: which values are null, the lengths of texts and lists, and the values that are not null.
type values struct {
	nulls    runs // whether values are valid
	valid    int64
	truths   *runs        // the values of booleans; else nil
	bytes    *xxh3.Hasher // the values of numbers and texts; else nil
	width    int          // the bytes of a value of fixed width; else 0
	lengths  *lengths     // of texts and lists; else nil
	children []*values    // the items of a list, or the fields of a struct
}

// newValues returns a hash of values of a type.
func newValues(of arrow.DataType) (*values, error) {
	v := &values{nulls: newRuns()}
	var inner []arrow.DataType
	switch of := of.(type) {
	case *arrow.BooleanType:
		truths := newRuns()
		v.truths = &truths
	case *arrow.StringType, *arrow.BinaryType:
		v.bytes, v.lengths = xxh3.New(), newLengths()
	case *arrow.ListType:
		v.lengths, inner = newLengths(), []arrow.DataType{of.Elem()}
	case *arrow.MapType:
		v.lengths, inner = newLengths(), []arrow.DataType{of.Elem()}
	case *arrow.StructType:
		for _, f := range of.Fields() {
			inner = append(inner, f.Type)
		}
	case *arrow.Int32Type, *arrow.Int64Type, *arrow.Float32Type, *arrow.Float64Type, *arrow.Date32Type, *arrow.Time64Type,
		*arrow.TimestampType, *arrow.Decimal128Type, *arrow.FixedSizeBinaryType:
		v.bytes, v.width = xxh3.New(), of.(arrow.FixedWidthDataType).Bytes()
	default:
		return nil, fault.New(fault.Invalid, "tables have no columns of type %s", of).WithRemedy("cast the column, or leave it out")
	}
	for _, t := range inner {
		child, err := newValues(t)
		if err != nil {
			return nil, err
		}
		v.children = append(v.children, child)
	}
	return v, nil
}

// add adds the values of some rows, in runs of values that are not null.
func (v *values) add(a arrow.Array, from, to int) {
	if a.NullN() == 0 {
		v.addValid(a, from, to)
		return
	}
	for from < to {
		end := from
		for end < to && a.IsValid(end) {
			end++
		}
		v.addValid(a, from, end)
		for from = end; from < to && a.IsNull(from); {
			from++
		}
		v.nulls.add(false, from-end)
	}
}

// addValid adds values that are not null.
func (v *values) addValid(a arrow.Array, from, to int) {
	if from == to {
		return
	}
	v.nulls.add(true, to-from)
	v.valid += int64(to - from)
	switch a := a.(type) {
	case *array.Boolean:
		for row := from; row < to; row++ {
			v.truths.add(a.Value(row), 1)
		}
	case *array.String:
		v.addTexts(a.ValueOffsets()[from:to+1], a.Data())
	case *array.Binary:
		v.addTexts(a.ValueOffsets()[from:to+1], a.Data())
	case *array.Struct:
		for i, child := range v.children {
			child.add(a.Field(i), from, to)
		}
	case array.ListLike:
		v.addLists(a, from, to)
	default:
		at := a.Data().Offset()
		v.write(a.Data(), 1, (at+from)*v.width, (at+to)*v.width)
	}
}

// addTexts adds texts or binary values, given their offsets and the end of the last one.
func (v *values) addTexts(offsets []int32, of arrow.ArrayData) {
	for i, offset := range offsets[1:] {
		v.lengths.add(int(offset - offsets[i]))
	}
	v.write(of, 2, int(offsets[0]), int(offsets[len(offsets)-1])) //nolint:mnd // the buffer of the bytes, after validity and offsets
}

// addLists adds the items of lists.
func (v *values) addLists(a array.ListLike, from, to int) {
	first, _ := a.ValueOffsets(from)
	end := first
	for row := from; row < to; row++ {
		start, next := a.ValueOffsets(row)
		v.lengths.add(int(next - start))
		end = next
	}
	v.children[0].add(a.ListValues(), int(first), int(end))
}

// write adds bytes of a buffer.
func (v *values) write(of arrow.ArrayData, buffer, from, to int) {
	if from < to {
		_, _ = v.bytes.Write(of.Buffers()[buffer].Bytes()[from:to]) // a hash does not fail
	}
}

// sums appends the hashes of all streams. The type of the column determines their number.
func (v *values) sums(out []sum) []sum {
	out = append(out, v.nulls.sum())
	if v.truths != nil {
		out = append(out, v.truths.sum())
	}
	if v.bytes != nil {
		out = append(out, sumOf(v.bytes))
	}
	if v.lengths != nil {
		out = append(out, v.lengths.sum())
	}
	for _, child := range v.children {
		out = child.sums(out)
	}
	return out
}

// runs hashes a sequence of bits by the lengths of its runs, beginning with a run of true.
type runs struct {
	hash  *xxh3.Hasher
	bit   bool
	count uint64
}

func newRuns() runs { return runs{hash: xxh3.New(), bit: true} }

// add adds n equal bits.
func (r *runs) add(bit bool, n int) {
	if n > 0 && bit != r.bit {
		r.flush()
		r.bit, r.count = bit, 0
	}
	r.count += uint64(n) //nolint:gosec // n is not negative
}

func (r *runs) flush() {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], r.count)
	_, _ = r.hash.Write(number[:])
}

// sum returns the hash of all bits so far.
func (r *runs) sum() sum {
	hash := *r.hash
	ended := runs{hash: &hash, count: r.count}
	ended.flush()
	return sumOf(&hash)
}

// lengths hashes a sequence of numbers.
type lengths struct {
	hash    *xxh3.Hasher
	pending []byte // encoded numbers that are not hashed yet
}

// pendingBytes bounds the encoded numbers that wait.
const pendingBytes = 4 << 10

func newLengths() *lengths { return &lengths{hash: xxh3.New(), pending: make([]byte, 0, pendingBytes)} }

func (l *lengths) add(n int) {
	if len(l.pending)+4 > pendingBytes {
		l.flush()
	}
	l.pending = binary.LittleEndian.AppendUint32(l.pending, uint32(n)) //nolint:gosec // offsets have 32 bits
}

func (l *lengths) flush() {
	_, _ = l.hash.Write(l.pending)
	l.pending = l.pending[:0]
}

// sum returns the hash of all numbers so far.
func (l *lengths) sum() sum {
	l.flush()
	return sumOf(l.hash)
}
