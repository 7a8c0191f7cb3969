package function

import (
	"cmp"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/bucket"
)

func codeFunctions() []definition {
	return []definition{
		{
			Signature: Signature{
				Name: "hash", Arguments: "x, n", Result: "long",
				Accepts: "an int, long, string or binary value, and a literal whole number from 1 to 2147483647",
				Meaning: "a whole number from 0 to n - 1: Iceberg's bucket of x, as the rule hash of tensors computes it",
				DuckDB:  none, Spark: none,
			},
			least: 2, most: 2, bind: bindHash,
		},
		{
			Signature: Signature{
				Name: "bucketize", Arguments: "x, bounds", Result: "long",
				Accepts: "a number, date or timestamp, and a literal list of ascending bounds of the same type or numbers",
				Meaning: "the number of bounds that are less than x, as torch.bucketize computes it; NaN is greater than all bounds",
				DuckDB:  "CASE WHEN x IS NOT NULL THEN len(list_filter(bounds, lambda b: x > b)) END", Spark: "CASE WHEN x IS NOT NULL THEN size(filter(bounds, b -> x > b)) END",
			},
			least: 2, most: 2, bind: bindBucketize,
		},
		{
			Signature: Signature{
				Name: "lookup", Arguments: "x, values, other", Result: "long",
				Accepts: "an int, long, string or binary value, a literal list of distinct values, and optionally a literal whole number or NULL",
				Meaning: "the position of x in values, from 0 on; for other values, other, or a failure without a third argument (the calls beside return NULL)",
				DuckDB:  "list_position(values, x) - 1", Spark: "nullif(array_position(values, x), 0) - 1",
			},
			least: 2, most: 3, bind: bindLookup,
		},
	}
}

// none says that an engine has no call with the same meaning.
const none = "none"

func bindHash(args []Argument) (Bound, error) {
	n, ok := integerLiteral(args[1])
	if !ok || n < 1 || n > math.MaxInt32 {
		return Bound{}, errTypes{}
	}
	m := bucket.NewModulus(int(n))
	switch args[0].Type.ID() {
	case arrow.INT32:
		return ofFirst(unary("hash", int64Type(), hashIntegers[int32](m))), nil
	case arrow.INT64:
		return ofFirst(unary("hash", int64Type(), hashIntegers[int64](m))), nil
	case arrow.STRING, arrow.BINARY:
		return ofFirst(ofText("hash", int64Type(), func(x []byte) (int64, *refusal) { return int64(m.Of(bucket.HashBytes(x))), nil })), nil
	default:
		return Bound{}, errTypes{}
	}
}

func hashIntegers[T int32 | int64](m bucket.Modulus) kernel[T, int64] {
	return func(out []int64, in vector[T], _ validity) (int, *refusal) {
		for i := range out { // without calls of functions that are not inlined
			out[i] = int64(m.Of(bucket.HashInt64(int64(in.at(i)))))
		}
		return 0, nil
	}
}

// ofFirst returns a function whose arguments other than the first were read when it was bound.
func ofFirst(b Bound) Bound {
	size, run := b.Size, b.Run
	b.Size = func(sizes []int64, rows int) int64 { return size(sizes[:1], rows) }
	b.Run = func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
		return run(args[:1], rows, mem)
	}
	return b
}

func bindBucketize(args []Argument) (Bound, error) {
	items, ok := listLiteral(args[1])
	if !ok {
		return Bound{}, errTypes{}
	}
	defer items.Release()
	of, dt := args[0].Type, items.DataType()
	if !arrow.TypeEqual(of, dt) && (!isNumber(of) || !isNumber(dt)) || isNumber(of) != isNumber(dt) {
		return Bound{}, errTypes{}
	}
	switch of.ID() {
	case arrow.INT32, arrow.INT64:
		return wholeBuckets(of, items)
	case arrow.FLOAT32:
		bounds, err := floatBounds(items)
		return buckets(convert[float32](bounds), 0), err
	case arrow.FLOAT64:
		bounds, err := floatBounds(items)
		return buckets(bounds, 0), err
	case arrow.DATE32:
		bounds := arrow.GetValues[int32](items.Data(), 1)
		return buckets(bounds, 0), ascending(bounds)
	case arrow.TIMESTAMP:
		bounds := arrow.GetValues[int64](items.Data(), 1)
		return buckets(bounds, 0), ascending(bounds)
	default:
		return Bound{}, errTypes{}
	}
}

// ascending checks that each bound is greater than the one before.
func ascending[T cmp.Ordered](bounds []T) error {
	for i, b := range bounds {
		if b != b || i > 0 && b <= bounds[i-1] {
			return invalid("the bounds of bucketize must be numbers in ascending order: bound %d is %v", i+1, b)
		}
	}
	return nil
}

// floatBounds returns bounds as floats.
func floatBounds(items arrow.Array) ([]float64, error) {
	out := make([]float64, items.Len())
	for i := range out {
		switch items := items.(type) {
		case *array.Int32:
			out[i] = float64(items.Value(i))
		case *array.Int64:
			out[i] = float64(items.Value(i))
			if out[i] >= limit64 || int64(out[i]) != items.Value(i) {
				return nil, invalid("bound %d of bucketize has no equal double: %d", i+1, items.Value(i))
			}
		case *array.Float32:
			out[i] = float64(items.Value(i))
		case *array.Float64:
			out[i] = items.Value(i)
		}
	}
	return out, ascending(out)
}

func convert[O, I int32 | int64 | float32 | float64](in []I) []O {
	out := make([]O, len(in))
	for i, v := range in {
		out[i] = O(v)
	}
	return out
}

// wholeBuckets compares integers exactly: a bound is less than a whole number if the bound rounded down is.
func wholeBuckets(of arrow.DataType, items arrow.Array) (Bound, error) {
	var bounds []int64
	below := int64(0) // bounds that are less than all integers
	if isFloat(items.DataType()) {
		floats, err := floatBounds(items)
		if err != nil {
			return Bound{}, err
		}
		for _, b := range floats {
			switch b = math.Floor(b); {
			case b < -limit64:
				below++
			case b < limit64:
				bounds = append(bounds, int64(b))
			}
		}
	} else {
		if items.DataType().ID() == arrow.INT32 {
			bounds = convert[int64](arrow.GetValues[int32](items.Data(), 1))
		} else {
			bounds = arrow.GetValues[int64](items.Data(), 1) // literals are in memory that is never freed
		}
		if err := ascending(bounds); err != nil {
			return Bound{}, err
		}
	}
	if of.ID() == arrow.INT64 {
		return buckets(bounds, below), nil
	}
	return ofFirst(unary("bucketize", int64Type(), each(func(x int32) int64 { return below + position(bounds, int64(x)) }))), nil
}

// buckets returns a function that counts the bounds below a value. Some further bounds are below all values.
func buckets[T int32 | int64 | float32 | float64](bounds []T, below int64) Bound {
	return ofFirst(unary("bucketize", int64Type(), each(func(x T) int64 { return below + position(bounds, x) })))
}

// position returns the number of ascending bounds that are less than x. NaN is greater than all of them.
func position[T int32 | int64 | float32 | float64](bounds []T, x T) int64 {
	from, to := 0, len(bounds)
	for from < to {
		middle := int(uint(from+to) / 2)
		if x <= bounds[middle] {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return int64(from)
}

// vocabulary has the positions of values, and the code of other values.
type vocabulary[K comparable] struct {
	codes map[K]int64
	other int64
	fails bool // for values without a position
	nulls bool // such values become null
}

// find returns the position of a value; false if it is null.
func (v *vocabulary[K]) find(code int64, known bool) (int64, bool, *refusal) {
	switch {
	case known:
		return code, true, nil
	case v.fails:
		return 0, false, &refusal{"is not defined: the value is not in the list", "add the value, or add a third argument with the code of all other values"}
	default:
		return v.other, !v.nulls, nil
	}
}

func newVocabulary[K comparable](args []Argument, codes map[K]int64) (*vocabulary[K], error) {
	v := &vocabulary[K]{codes: codes, fails: len(args) == 2}
	if v.fails {
		return v, nil
	}
	if isNullLiteral(args[2]) {
		v.nulls = true
		return v, nil
	}
	other, ok := integerLiteral(args[2])
	v.other = other
	if !ok {
		return nil, errTypes{}
	}
	return v, nil
}

func bindLookup(args []Argument) (Bound, error) {
	items, ok := listLiteral(args[1])
	if !ok {
		return Bound{}, errTypes{}
	}
	defer items.Release()
	of, index := args[0].Type, args[1].Index
	isText := (of.ID() == arrow.STRING || of.ID() == arrow.BINARY) && arrow.TypeEqual(of, items.DataType())
	if !isText && (!isInteger(of) || !isInteger(items.DataType())) {
		return Bound{}, errTypes{}
	}
	if index == nil {
		var err error
		if index, err = NewIndex(items); err != nil {
			return Bound{}, err
		}
	}
	if isText {
		v, err := newVocabulary(args, index.texts)
		if err != nil {
			return Bound{}, err
		}
		return lookup(v, func(a arrow.Array, rows int) func(int) (int64, bool) {
			in := textsOf(a, rows)
			return func(row int) (int64, bool) { code, known := v.codes[string(in.at(row))]; return code, known } // without a copy
		}), nil
	}
	v, err := newVocabulary(args, index.integers)
	if err != nil {
		return Bound{}, err
	}
	if of.ID() == arrow.INT32 {
		return lookup(v, func(a arrow.Array, rows int) func(int) (int64, bool) {
			in := vectorOf[int32](a, rows)
			return func(row int) (int64, bool) { code, known := v.codes[int64(in.at(row))]; return code, known }
		}), nil
	}
	return lookup(v, func(a arrow.Array, rows int) func(int) (int64, bool) {
		in := vectorOf[int64](a, rows)
		return func(row int) (int64, bool) { code, known := v.codes[in.at(row)]; return code, known }
	}), nil
}

// lookup returns a function that finds the positions of values.
func lookup[K comparable](v *vocabulary[K], of func(a arrow.Array, rows int) func(row int) (int64, bool)) Bound {
	return Bound{
		Type: int64Type(), Nullable: v.nulls,
		Size: func(_ []int64, rows int) int64 { return fixedSize(rows, arrow.Int64SizeBytes) },
		Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			valid := o.common(args[:1])
			if valid.buffer == nil {
				valid = o.allValid()
			}
			buffer := o.buffer(rows * arrow.Int64SizeBytes)
			out, find := values[int64](buffer), of(args[0], rows)
			for i := range out {
				out[i] = 0
				if !valid.valid(i) {
					continue
				}
				code, isValid, why := v.find(find(i))
				if why != nil {
					return nil, failed("lookup", args, rows, i, why)
				}
				if out[i] = code; !isValid {
					valid.clear(i)
				}
			}
			return o.array(int64Type(), valid, buffer), nil
		},
	}
}
