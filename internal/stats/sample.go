package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/theta"
)

// valuesOf returns the values of arrays that are not null, and that value accepts.
func valuesOf[T any](arrays []arrow.Array, value func(values arrow.Array, i int) (T, bool)) []T {
	n := 0
	for _, a := range arrays {
		n += a.Len() - a.NullN()
	}
	out := make([]T, 0, n)
	for _, a := range arrays {
		a = storageOf(a)
		for i := range a.Len() {
			if a.IsNull(i) {
				continue
			}
			if v, ok := value(a, i); ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// storageOf returns the storage of an array of an extension type, and other arrays as they are.
func storageOf(values arrow.Array) arrow.Array {
	if e, ok := values.(array.ExtensionArray); ok {
		return e.Storage()
	}
	return values
}

// integerAt returns a value that Integers describes.
func integerAt(values arrow.Array, i int) (int64, bool) {
	switch v := values.(type) {
	case *array.Boolean:
		if v.Value(i) {
			return 1, true
		}
		return 0, true
	default:
		return batch.IntegerAt(values, i)
	}
}

// floatAt returns a value that Floats describes, but not NaN.
func floatAt(values arrow.Array, i int) (x float64, ok bool) {
	switch v := values.(type) {
	case *array.Float32:
		x = float64(v.Value(i))
	case *array.Float64:
		x = v.Value(i)
	case *array.Decimal128:
		x = v.Value(i).ToFloat64(v.DataType().(*arrow.Decimal128Type).Scale) //nolint:forcetypeassert // by the type of the array
	default:
		return 0, false
	}
	return x, !math.IsNaN(x)
}

// textAt returns a value that Bytes describes. It shares the memory of variable-size values.
func textAt(values arrow.Array, i int) (string, bool) {
	switch v := values.(type) {
	case *array.String:
		return v.Value(i), true
	case *array.Binary:
		return v.ValueString(i), true
	case *array.FixedSizeBinary:
		return string(v.Value(i)), true
	default:
		return "", false
	}
}

// valueBytes is the maximum memory of one value of a sample in a Summary or a Profile, without the bytes of values of fixed size.
const valueBytes = 24

// valuesMemory returns the maximum number of bytes that the values of a column of a sample take outside of the sample.
func valuesMemory(sample []arrow.RecordBatch, column int) (bytes int64) {
	for _, b := range sample {
		bytes += arrayMemory(b.Column(column))
	}
	return bytes
}

// arrayMemory counts the values of an array, and its elements, lengths and norms.
func arrayMemory(a arrow.Array) int64 {
	bytes := int64(valueBytes)
	if t, ok := storageOf(a).DataType().(*arrow.FixedSizeBinaryType); ok {
		bytes += int64(t.ByteWidth)
	}
	bytes *= int64(a.Len())
	if lists, ok := a.(interface{ ListValues() arrow.Array }); ok {
		bytes += bytes + arrayMemory(lists.ListValues())
	}
	return bytes
}

// flatten returns the lengths of the lists of a sample, their norms if it has to, and their elements, which the caller releases.
func flatten(sample []arrow.Array, withNorms bool) (lengths []int64, norms []float64, elements []arrow.Array) {
	for _, a := range sample {
		lists, ok := a.(array.ListLike)
		if !ok {
			continue
		}
		for from, to := range validRuns(lists) {
			for i := from; i < to; i++ {
				start, end := lists.ValueOffsets(i)
				lengths = append(lengths, end-start)
				if withNorms {
					norms = append(norms, norm(lists.ListValues(), int(start), int(end)))
				}
			}
			start, _ := lists.ValueOffsets(from)
			_, end := lists.ValueOffsets(to - 1)
			elements = append(elements, array.NewSlice(lists.ListValues(), start, end))
		}
	}
	return lengths, norms, elements
}

// withoutInfinities returns the finite ones of sorted values without NaN.
func withoutInfinities(sorted []float64) []float64 {
	for len(sorted) > 0 && math.IsInf(sorted[0], -1) {
		sorted = sorted[1:]
	}
	for len(sorted) > 0 && math.IsInf(sorted[len(sorted)-1], 1) {
		sorted = sorted[:len(sorted)-1]
	}
	return sorted
}

// quantiles returns the quantiles of sorted values by the nearest rank; nil without values.
func quantiles[T any](sorted []T, value func(T) Value) []Value {
	if len(sorted) == 0 {
		return nil
	}
	out := make([]Value, len(Quantiles))
	for i, q := range Quantiles {
		out[i] = value(sorted[rank(q, len(sorted))])
	}
	return out
}

// minTop is the least number of times that a frequent value occurs in the sample: fewer may be chance.
const minTop = 8

// topOf returns the most frequent of sorted values. If they are all values, those that occur twice are frequent.
func topOf[T cmp.Ordered](sorted []T, all int64, value func(T) Value) []Top {
	least := minTop
	if int64(len(sorted)) == all {
		least = 2
	}
	type run struct {
		value T
		n     int
	}
	var frequent []run
	runs(sorted, least, func(v T, n int) { frequent = append(frequent, run{v, n}) })
	slices.SortStableFunc(frequent, func(a, b run) int { return cmp.Compare(b.n, a.n) })
	out := make([]Top, 0, maxTop)
	for _, r := range frequent[:min(len(frequent), maxTop)] {
		out = append(out, Top{Value: value(r.value), Count: int64(r.n), Share: float64(r.n) / float64(len(sorted))})
	}
	return out
}

// distinct returns the number of distinct values of a sketch and of values that it does not count, out of all values.
func distinct(s *theta.Sketch, more, all int64) (n *int64, exact bool) {
	estimate, exact := s.Estimate()
	return new(min(int64(math.Round(estimate))+more, all)), exact
}
