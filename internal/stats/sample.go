package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/theta"
)

// The values of a sample that are not null. NaN is left out.
type (
	integerSample struct{ values []int64 }
	floatSample   struct{ values []float64 }
	bytesSample   []string
)

// each calls add for the values of arrays that are not null.
func each(arrays []arrow.Array, add func(values arrow.Array, i int)) {
	for _, a := range arrays {
		if e, ok := a.(array.ExtensionArray); ok {
			a = e.Storage()
		}
		for i := range a.Len() {
			if a.IsValid(i) {
				add(a, i)
			}
		}
	}
}

func (s *integerSample) add(values arrow.Array, i int) {
	switch v := values.(type) {
	case *array.Int32:
		s.values = append(s.values, int64(v.Value(i)))
	case *array.Int64:
		s.values = append(s.values, v.Value(i))
	case *array.Date32:
		s.values = append(s.values, int64(v.Value(i)))
	case *array.Time64:
		s.values = append(s.values, int64(v.Value(i)))
	case *array.Timestamp:
		s.values = append(s.values, int64(v.Value(i)))
	case *array.Boolean:
		n := int64(0)
		if v.Value(i) {
			n = 1
		}
		s.values = append(s.values, n)
	}
}

func (s *floatSample) add(values arrow.Array, i int) {
	x := math.NaN()
	switch v := values.(type) {
	case *array.Float32:
		x = float64(v.Value(i))
	case *array.Float64:
		x = v.Value(i)
	case *array.Decimal128:
		x = v.Value(i).ToFloat64(v.DataType().(*arrow.Decimal128Type).Scale) //nolint:forcetypeassert // by the type of the array
	}
	if !math.IsNaN(x) {
		s.values = append(s.values, x)
	}
}

func (s *bytesSample) add(values arrow.Array, i int) {
	switch v := values.(type) {
	case *array.String:
		*s = append(*s, v.Value(i))
	case *array.Binary:
		*s = append(*s, string(v.Value(i)))
	case *array.FixedSizeBinary:
		*s = append(*s, string(v.Value(i)))
	}
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
