package warehouse

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// facts defines what a writer records about a file's columns in its manifest.
type facts struct {
	none   bool // record nothing
	counts bool // record counts, but no bounds
	length int  // number of characters to which bounds are truncated
}

// fact is what a manifest records about a column.
type fact struct {
	values, nulls, nans int64
	floats              bool
	lower, upper        []byte
}

// tell adds the facts that a writer records about a file to the file's manifest entry.
func (s facts) tell(b *iceberg.DataFileBuilder, all []physical, rows arrow.RecordBatch) {
	if s.none {
		return
	}
	t := told{facts: s, values: map[int]int64{}, nulls: map[int]int64{}, nans: map[int]int64{}, lower: map[int][]byte{}, upper: map[int][]byte{}}
	for i, p := range all {
		t.column(p.NestedField, rows.Column(i), nil)
	}
	b.ValueCounts(t.values).NullValueCounts(t.nulls).NaNValueCounts(t.nans).LowerBoundValues(t.lower).UpperBoundValues(t.upper)
}

// told has the facts about the columns of a file, by field id.
type told struct {
	facts
	values, nulls, nans map[int]int64
	lower, upper        map[int][]byte
}

// column adds a column, or the columns of a struct. There are no facts about the contents
// of lists and maps.
func (t *told) column(f iceberg.NestedField, column arrow.Array, around []arrow.Array) {
	if of, ok := column.(*array.Struct); ok {
		for i, inner := range f.Type.(*iceberg.StructType).FieldList {
			t.column(inner, of.Field(i), append(around, column))
		}
		return
	}
	if arrow.IsNested(column.DataType().ID()) {
		return
	}
	isNull := func(row int) bool {
		return column.IsNull(row) || slices.ContainsFunc(around, func(a arrow.Array) bool { return a.IsNull(row) })
	}
	one := t.of(column, isNull)
	t.values[f.ID], t.nulls[f.ID] = one.values, one.nulls
	if one.floats {
		t.nans[f.ID] = one.nans
	}
	if one.lower != nil && !t.counts {
		t.lower[f.ID] = one.lower
	}
	if one.upper != nil && !t.counts {
		t.upper[f.ID] = one.upper
	}
}

// of returns the fact about the values of a column. NaNs are counted, but bounds ignore them.
func (s facts) of(column arrow.Array, isNull func(row int) bool) fact {
	if e, ok := column.(array.ExtensionArray); ok {
		column = e.Storage()
	}
	f := fact{values: int64(column.Len())}
	compare, encode := ordered(column)
	least, most := -1, -1
	for i := range column.Len() {
		if isNull(i) {
			f.nulls++
			continue
		}
		if isNaN(column, i) {
			f.nans++
			continue
		}
		if least < 0 || compare(i, least) < 0 {
			least = i
		}
		if most < 0 || compare(i, most) > 0 {
			most = i
		}
	}
	f.floats = column.DataType().ID() == arrow.FLOAT32 || column.DataType().ID() == arrow.FLOAT64
	if least < 0 || encode == nil {
		return f
	}
	f.lower, f.upper = encode(least), encode(most)
	switch column.DataType().ID() {
	case arrow.STRING:
		f.lower, f.upper = s.text(f.lower, false), s.text(f.upper, true)
	case arrow.BINARY:
		f.lower, f.upper = s.binary(f.lower, false), s.binary(f.upper, true)
	case arrow.FLOAT32, arrow.FLOAT64:
		f.lower, f.upper = signed(f.lower, true), signed(f.upper, false)
	}
	return f
}

func isNaN(column arrow.Array, i int) bool {
	switch a := column.(type) {
	case *array.Float32:
		return a.Value(i) != a.Value(i)
	case *array.Float64:
		return math.IsNaN(a.Value(i))
	default:
		return false
	}
}

// signed returns -0 for a zero lower bound and 0 for a zero upper bound, since files do
// not record the sign of zeros in bounds.
func signed(bound []byte, lower bool) []byte {
	last := len(bound) - 1
	if len(bytes.Trim(bound[:last], "\x00")) > 0 || bound[last]&0x7f != 0 {
		return bound
	}
	bound[last] = 0
	if lower {
		bound[last] = 0x80
	}
	return bound
}

// text truncates a bound of a string to whole characters. It increments the last possible
// character of an upper bound, or omits the bound.
func (s facts) text(bound []byte, upper bool) []byte {
	points := []rune(string(bound))
	if len(points) <= s.length {
		return bound
	}
	points = points[:s.length]
	if !upper {
		return []byte(string(points))
	}
	for i := len(points) - 1; i >= 0; i-- {
		next := points[i] + 1
		if next == 0xd800 {
			next = 0xe000 // skip the surrogates
		}
		if utf8.ValidRune(next) {
			points[i] = next
			return []byte(string(points[:i+1]))
		}
	}
	return nil
}

func (s facts) binary(bound []byte, upper bool) []byte {
	if len(bound) <= s.length {
		return bound
	}
	bound = bytes.Clone(bound[:s.length])
	if !upper {
		return bound
	}
	for i := len(bound) - 1; i >= 0; i-- {
		if bound[i] < 0xff {
			bound[i]++
			return bound[:i+1]
		}
	}
	return nil
}

// ordered returns functions that compare a column's values and that encode them as in manifests.
// There is no encoding for types for which writers disagree about bounds.
func ordered(column arrow.Array) (compare func(i, j int) int, encode func(i int) []byte) {
	switch a := column.(type) {
	case *array.Boolean:
		one := func(i int) byte {
			if a.Value(i) {
				return 1
			}
			return 0
		}
		return func(i, j int) int { return cmp.Compare(one(i), one(j)) }, func(i int) []byte { return []byte{one(i)} }
	case *array.Int32:
		return values(a.Value, func(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) })
	case *array.Date32:
		return values(a.Value, func(v arrow.Date32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) })
	case *array.Int64:
		return values(a.Value, func(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) })
	case *array.Time64:
		return values(a.Value, func(v arrow.Time64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) })
	case *array.Timestamp:
		return values(a.Value, func(v arrow.Timestamp) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) })
	case *array.Float32:
		return values(a.Value, func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) })
	case *array.Float64:
		return values(a.Value, func(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) })
	case *array.String:
		return values(a.Value, func(v string) []byte { return []byte(v) })
	case *array.Binary:
		return func(i, j int) int { return bytes.Compare(a.Value(i), a.Value(j)) }, func(i int) []byte { return bytes.Clone(a.Value(i)) }
	case *array.FixedSizeBinary:
		return func(i, j int) int { return bytes.Compare(a.Value(i), a.Value(j)) }, func(i int) []byte { return bytes.Clone(a.Value(i)) }
	case *array.Decimal128:
		return func(i, j int) int { return a.Value(i).Cmp(a.Value(j)) }, func(i int) []byte { return twosComplement(a.Value(i).BigInt()) }
	default:
		return func(int, int) int { return 0 }, nil
	}
}

func values[T cmp.Ordered](value func(int) T, encode func(T) []byte) (func(i, j int) int, func(i int) []byte) {
	return func(i, j int) int { return cmp.Compare(value(i), value(j)) }, func(i int) []byte { return encode(value(i)) }
}

// twosComplement returns the minimal big-endian two's complement of a number.
func twosComplement(n *big.Int) []byte {
	for width := 1; ; width++ {
		limit := new(big.Int).Lsh(big.NewInt(1), uint(8*width-1))
		if n.Cmp(limit) >= 0 || n.Cmp(new(big.Int).Neg(limit)) < 0 {
			continue
		}
		if n.Sign() < 0 {
			n = new(big.Int).Add(n, new(big.Int).Lsh(limit, 1))
		}
		out := n.Bytes()
		return append(make([]byte, width-len(out)), out...)
	}
}
