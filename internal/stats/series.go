package stats

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock/penstock/internal/theta"
)

// Series describes values that are not null: *Integers, *Floats or *Bytes.
type Series interface {
	// add adds the values of an array from one position to another. None of them is null.
	add(values arrow.Array, from, to int)
	// merge adds the values of a series of the same type.
	merge(other Series)
}

// seriesMemory is the maximum memory of a series in bytes, apart from texts: nearly all of it is the sketch.
const seriesMemory = theta.MaxMemory + 512

// The widths of integers in bytes.
const (
	boolBytes, intBytes, longBytes = 1, 4, 8
)

// newSeries returns a series without values for a type; nil if the type is not supported.
func newSeries(t arrow.DataType) Series {
	switch t.ID() {
	case arrow.BOOL:
		return &Integers{width: boolBytes}
	case arrow.INT32, arrow.DATE32:
		return &Integers{width: intBytes}
	case arrow.INT64, arrow.TIME64, arrow.TIMESTAMP:
		return &Integers{width: longBytes}
	case arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
		return &Floats{}
	case arrow.STRING, arrow.BINARY, arrow.FIXED_SIZE_BINARY:
		return &Bytes{}
	default:
		return nil
	}
}

// Integers describes integers, and what is stored as integers: booleans as 0 and 1, dates, times and timestamps as numbers
// of their units.
type Integers struct {
	N, Zeros int64
	Min, Max int64 // if N is positive
	Distinct theta.Sketch
	moments  moments
	width    int // of a value in bytes, as Iceberg serializes it
}

func (s *Integers) add(values arrow.Array, from, to int) {
	switch v := values.(type) {
	case *array.Int32:
		addIntegers(s, v.Int32Values()[from:to])
	case *array.Int64:
		addIntegers(s, v.Int64Values()[from:to])
	case *array.Date32:
		addIntegers(s, v.Date32Values()[from:to])
	case *array.Time64:
		addIntegers(s, v.Time64Values()[from:to])
	case *array.Timestamp:
		addIntegers(s, v.TimestampValues()[from:to])
	case *array.Boolean:
		for i := from; i < to; i++ {
			if v.Value(i) {
				s.addOne(1)
			} else {
				s.addOne(0)
			}
		}
	}
}

// addOne adds one value.
func (s *Integers) addOne(v int64) { addIntegers(s, []int64{v}) }

// addIntegers adds values.
func addIntegers[T ~int32 | ~int64](s *Integers, values []T) {
	if len(values) == 0 {
		return
	}
	if s.N == 0 {
		s.Min, s.Max = int64(values[0]), int64(values[0])
	}
	low, high, m, zeros := s.Min, s.Max, s.moments, int64(0)
	for _, v := range values {
		low, high = min(low, int64(v)), max(high, int64(v))
		if v == 0 {
			zeros++
		}
		m.add(float64(v))
	}
	s.N, s.Zeros, s.Min, s.Max, s.moments = s.N+int64(len(values)), s.Zeros+zeros, low, high, m
	switch s.width {
	case longBytes:
		for _, v := range values {
			s.Distinct.AddUint64(uint64(v)) //nolint:gosec // its bits
		}
	case intBytes:
		for _, v := range values {
			s.Distinct.AddUint32(uint32(v)) //nolint:gosec // its bits
		}
	default:
		for _, v := range values {
			s.Distinct.AddBytes([]byte{byte(v)})
		}
	}
}

func (s *Integers) merge(of Series) {
	other, ok := of.(*Integers)
	if !ok || other.N == 0 {
		return
	}
	if s.N == 0 {
		s.Min, s.Max = other.Min, other.Max
	}
	s.Min, s.Max = min(s.Min, other.Min), max(s.Max, other.Max)
	s.N, s.Zeros = s.N+other.N, s.Zeros+other.Zeros
	s.moments.merge(other.moments)
	s.Distinct.Merge(&other.Distinct)
}

// Floats describes floating-point numbers, and decimals as the nearest ones. Min, Max, mean and deviation are those of the
// finite values.
type Floats struct {
	N, Zeros, NaN, Infinite int64
	Min, Max                float64 // if there are finite values
	Distinct                theta.Sketch
	moments                 moments
}

func (s *Floats) add(values arrow.Array, from, to int) {
	switch v := values.(type) {
	case *array.Float32:
		addFloats(s, v.Float32Values()[from:to])
	case *array.Float64:
		addFloats(s, v.Float64Values()[from:to])
	case *array.Decimal128:
		scale := v.DataType().(*arrow.Decimal128Type).Scale //nolint:forcetypeassert // by the type of the array
		for _, d := range v.Values()[from:to] {
			s.Distinct.AddBytes(decimalBytes(d))
			countFloats(s, []float64{d.ToFloat64(scale)})
		}
	}
}

// addOne adds one value.
func (s *Floats) addOne(v float64) { addFloats(s, []float64{v}) }

// addFloats adds values.
func addFloats[T float32 | float64](s *Floats, values []T) {
	countFloats(s, values)
	if unsafe.Sizeof(T(0)) == longBytes {
		for _, v := range values {
			s.Distinct.AddUint64(math.Float64bits(float64(v)))
		}
		return
	}
	for _, v := range values {
		s.Distinct.AddUint32(math.Float32bits(float32(v)))
	}
}

// countFloats adds values to everything but the sketch.
func countFloats[T float32 | float64](s *Floats, values []T) {
	low, high, m, zeros := s.Min, s.Max, s.moments, int64(0)
	if m.n == 0 {
		low, high = math.Inf(1), math.Inf(-1)
	}
	for _, v := range values {
		x := float64(v)
		if x-x != 0 { // infinite or NaN
			if x != x {
				s.NaN++
			} else {
				s.Infinite++
			}
			continue
		}
		if x < low {
			low = x
		}
		if x > high {
			high = x
		}
		if x == 0 {
			zeros++
		}
		m.add(x)
	}
	s.N, s.Zeros, s.moments = s.N+int64(len(values)), s.Zeros+zeros, m
	if m.n > 0 {
		s.Min, s.Max = low, high
	}
}

func (s *Floats) merge(of Series) {
	other, ok := of.(*Floats)
	if !ok || other.N == 0 {
		return
	}
	switch {
	case s.moments.n == 0:
		s.Min, s.Max = other.Min, other.Max
	case other.moments.n > 0:
		s.Min, s.Max = min(s.Min, other.Min), max(s.Max, other.Max)
	}
	s.N, s.Zeros, s.NaN, s.Infinite = s.N+other.N, s.Zeros+other.Zeros, s.NaN+other.NaN, s.Infinite+other.Infinite
	s.moments.merge(other.moments)
	s.Distinct.Merge(&other.Distinct)
}

// norm returns the Euclidean norm of elements. Null elements count as 0.
func norm(elements arrow.Array, from, to int) float64 {
	sum := 0.0
	add := func(i int, x float64) {
		if elements.IsValid(i) {
			sum += x * x
		}
	}
	switch v := elements.(type) {
	case *array.Float32:
		for i := from; i < to; i++ {
			add(i, float64(v.Value(i)))
		}
	case *array.Float64:
		for i := from; i < to; i++ {
			add(i, v.Value(i))
		}
	case *array.Decimal128:
		scale := v.DataType().(*arrow.Decimal128Type).Scale //nolint:forcetypeassert // by the type of the array
		for i := from; i < to; i++ {
			add(i, v.Value(i).ToFloat64(scale))
		}
	}
	return math.Sqrt(sum)
}

// decimalBytes returns the fewest big-endian bytes of the unscaled value in two's complement, as Iceberg serializes decimals.
func decimalBytes(d decimal128.Num) []byte {
	var all [16]byte
	high, low := uint64(d.HighBits()), d.LowBits() //nolint:gosec // its bits
	for i := range 8 {
		all[i], all[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	sign := byte(0)
	if d.Sign() < 0 {
		sign = 0xff
	}
	first := 0
	for first < len(all)-1 && all[first] == sign && all[first+1]&0x80 == sign&0x80 {
		first++
	}
	return all[first:]
}
