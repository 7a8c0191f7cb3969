package function

import (
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

func listFunctions() []definition {
	of := func(name, arguments, accepts, result, meaning string, bind func([]Argument) (Bound, error)) definition {
		n := 1
		if accepts != acceptsNumbers && accepts != acceptsList {
			n = 2
		}
		return definition{Signature{Name: name, Arguments: arguments, Accepts: accepts, Result: result, Meaning: meaning}, n, n, bind}
	}
	const item = "the type of the items"
	return []definition{
		twin(of("first", "x, n", "a list that is not a literal, and a literal whole number above 0", "the type of x",
			"a list of the first n items, or of all if there are fewer", bindEnds(batch.First)), "x[1:n]", "slice(x, 1, n)"),
		twin(of("last", "x, n", "a list that is not a literal, and a literal whole number above 0", "the type of x",
			"a list of the last n items, or of all if there are fewer", bindEnds(batch.Last)), "x[-n:]", "slice(x, greatest(array_size(x) - n + 1, 1), n)"),
		twin(of("element_at", "x, i", "a list and a whole number", item,
			"item i of a list: 1 is the first item, -1 the last; it fails if there is no such item", bindElement("element_at", false)), "x[i]", ""),
		twin(of("try_element_at", "x, i", "a list and a whole number", item,
			"item i of a list, as element_at returns it, or null if there is no such item; it fails for the item 0", bindElement("try_element_at", true)), "x[i]", ""),
		of("array_contains", "x, y", "a list, and a value of the type of its items", "boolean",
			"whether an item equals y; it fails if none does and an item is null", bindContains),
		twin(of("array_min", "x", acceptsList, item, "the least item that is not null, or null without such an item; NaN is greater than all numbers", bindBest(-1)), "list_min(x)", ""),
		twin(of("array_max", "x", acceptsList, item, "the greatest item that is not null, or null without such an item; NaN is greater than all numbers", bindBest(1)), "list_max(x)", ""),
		twin(of("array_sum", "x", acceptsNumbers, "long for integers, otherwise double",
			"the sum of the items that are not null, in their order, or null without such an item; it fails beyond the range of long", bindSum), "list_sum(x)", none),
		twin(of("array_avg", "x", acceptsNumbers, "double",
			"the sum of the items that are not null, divided by their number, or null without such an item", bindMean), "list_avg(x)", none),
	}
}

const (
	acceptsList    = "a list of values that are ordered"
	acceptsNumbers = "a list of numbers"
)

// itemType returns the type of the items of a list that functions support; nil for other types.
func itemType(dt arrow.DataType) arrow.DataType {
	if !isList(dt) || !isSupported(dt) {
		return nil
	}
	return dt.(arrow.ListLikeType).Elem() //nolint:forcetypeassert // a list
}

// bindEnds binds functions that shorten lists.
func bindEnds(shorten func(arrow.Array, int, memory.Allocator) (arrow.Array, error)) func([]Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		n, ok := integerLiteral(args[1])
		if itemType(args[0].Type) == nil || args[0].Literal != nil || !ok || n < 1 {
			return Bound{}, errTypes{}
		}
		return Bound{
			Type: args[0].Type,
			Size: func(sizes []int64, rows int) int64 {
				return sizes[0] + fixedSize(rows+1, arrow.Int32SizeBytes) + contentSlack
			},
			Run: func(of []arrow.Array, _ int, mem memory.Allocator) (arrow.Array, error) {
				return shorten(of[0], int(min(n, math.MaxInt32)), mem)
			},
		}, nil
	}
}

// itemFinder returns the position of the chosen item of a row among the items of all lists; -1 for null.
type itemFinder func(row int) (int, error)

// bindItem binds a function whose result is an item of the list that is its first argument, or null. find gets the
// arguments and the lists of a call.
func bindItem(list Argument, find func(of []arrow.Array, rows int, in lists) itemFinder) Bound {
	item := itemType(list.Type)
	return Bound{
		Type: item, Nullable: true,
		Size: func(sizes []int64, rows int) int64 {
			return bytesOf(list, sizes[0], rows) + 2*padded(int64(rows)*int64(arrow.Int32SizeBytes)) + 2*fixedSize(rows+1, widestValue) + contentSlack
		},
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			none := batch.Nulls(item, 1, mem)
			defer none.Release()
			o := newOutput(rows, mem)
			defer o.close()
			which := values[int32](o.buffer(rows * arrow.Int32SizeBytes))
			at := values[int32](o.buffer(rows * arrow.Int32SizeBytes))
			in, absent := listsOf(of[0], rows), nullsOf(of[0], rows)
			found := find(of, rows, in)
			for i := range which {
				which[i], at[i] = 1, 0
				if absent.at(i) {
					continue
				}
				k, err := found(i)
				if err != nil {
					return nil, err
				}
				if k >= 0 {
					which[i], at[i] = 0, int32(k)
				}
			}
			return batch.Choose(item, []arrow.Array{in.items, none}, which, at, mem)
		},
	}
}

// bindElement binds functions that return an item of a list.
func bindElement(name string, try bool) func([]Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		if itemType(args[0].Type) == nil || !isInteger(args[1].Type) {
			return Bound{}, errTypes{}
		}
		return bindItem(args[0], func(of []arrow.Array, rows int, in lists) itemFinder {
			index, absent := wholes(of[1], rows), nullsOf(of[1], rows)
			return func(i int) (int, error) {
				if absent.at(i) {
					return -1, nil
				}
				from, to := in.at(i)
				k := index(i)
				switch n := int64(to - from); {
				case k == 0:
					return -1, failed(name, of, rows, i, &refusal{"is not defined: positions begin at 1", "use 1 for the first item"})
				case k >= 1 && k <= n:
					return from + int(k) - 1, nil
				case k < 0 && k >= -n:
					return to + int(k), nil
				case !try:
					return -1, failed(name, of, rows, i, &refusal{"is not defined: the list has no such item", "use try_element_at, which returns null"})
				}
				return -1, nil
			}
		}), nil
	}
}

func bindContains(args []Argument) (Bound, error) {
	item := itemType(args[0].Type)
	if item == nil || !isComparable(item) {
		return Bound{}, errTypes{}
	}
	common, ok := commonType(item, args[1].Type)
	if !ok || isNumber(common) != isNumber(args[1].Type) || args[1].Type.ID() == arrow.NULL {
		return Bound{}, errTypes{}
	}
	as := conversion{common}
	unknown := &refusal{"is not defined: engines differ for lists with nulls that do not have the value", "remove the nulls from the lists"}
	return Bound{
		Type: boolType(),
		Size: func(sizes []int64, rows int) int64 {
			converted := int64(0) // the items have at least 4 bytes each, and become doubles
			if !arrow.TypeEqual(item, common) {
				converted = 3*sizes[0] + contentSlack
			}
			return bitSize(rows) + as.size(args[1:], rows) + converted
		},
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			in := listsOf(of[0], rows)
			items := in.visible(rows)
			defer items.Release()
			start := int(in.offsets[0])
			converted := as.run([]arrow.Array{items, of[1]}, mem)
			defer releaseAll(converted)
			equal := equality(converted[0], converted[1], rows)
			o := newOutput(rows, mem)
			defer o.close()
			v, out := o.common(of), o.zeroed(bitmapBytes(rows))
			for i := range rows {
				if !v.valid(i) {
					continue
				}
				from, to := in.at(i)
				switch found, null := search(items, from-start, to-start, func(k int) bool { return equal(k, i) }); {
				case found:
					bitutil.SetBit(out.Bytes(), i)
				case null:
					return nil, failed("array_contains", of, rows, i, unknown)
				}
			}
			return o.array(boolType(), v, out), nil
		},
	}, nil
}

// search reports whether one of the items in a range is equal, and otherwise whether one is null.
func search(items arrow.Array, from, to int, equal func(k int) bool) (found, null bool) {
	for k := from; k < to; k++ {
		switch {
		case items.IsNull(k):
			null = true
		case equal(k):
			return true, false
		}
	}
	return false, null
}

// bindBest binds array_max, with the sign 1, and array_min, with the sign -1.
func bindBest(sign int) func([]Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		if item := itemType(args[0].Type); item == nil || !isComparable(item) {
			return Bound{}, errTypes{}
		}
		return bindItem(args[0], func(_ []arrow.Array, _ int, in lists) itemFinder {
			compare := ordering(in.items)
			return func(i int) (int, error) {
				from, to := in.at(i)
				return best(in.items, from, to, func(k, best int) bool { return compare(k, best)*sign > 0 }), nil
			}
		}), nil
	}
}

// best returns the first item in a range than which no other one is better; -1 if all are null.
func best(items arrow.Array, from, to int, better func(k, than int) bool) int {
	out := -1
	for k := from; k < to; k++ {
		if items.IsValid(k) && (out < 0 || better(k, out)) {
			out = k
		}
	}
	return out
}

func overflow() *refusal {
	return &refusal{"is out of the range of long", "cast the list to a list of double in the table"}
}

// sumOf returns a function that adds integers of a range that are not null. It returns their number.
func sumOf[T int32 | int64](items arrow.Array) func(from, to int) (sum, count int64, why *refusal) {
	in, beyond := vectorOf[T](items, items.Len()), overflow()
	return func(from, to int) (sum, count int64, why *refusal) {
		high, low := uint64(0), uint64(0) // a sum of 128 bits
		for k := from; k < to; k++ {
			if items.IsNull(k) {
				continue
			}
			x, carry := int64(in.at(k)), uint64(0)
			low, carry = bits.Add64(low, uint64(x), 0)
			high, _ = bits.Add64(high, uint64(x>>63), carry)
			count++
		}
		if high != uint64(int64(low)>>63) {
			return 0, count, beyond
		}
		return int64(low), count, nil
	}
}

// floatSum returns a function that adds floats of a range that are not null.
func floatSum[T float32 | float64](items arrow.Array) func(from, to int) (sum float64, count int64) {
	in := vectorOf[T](items, items.Len())
	return func(from, to int) (sum float64, count int64) {
		for k := from; k < to; k++ {
			if items.IsValid(k) {
				sum, count = sum+float64(in.at(k)), count+1
			}
		}
		return sum, count
	}
}

// wholeSums and floatSums return functions that add the items of a range that are not null, and count them.
type (
	wholeSums func(items arrow.Array) func(from, to int) (sum, count int64, why *refusal)
	floatSums func(items arrow.Array) func(from, to int) (sum float64, count int64)
)

// overNumbers returns one of two functions by the type of a list's items.
func overNumbers(args []Argument, whole func(wholeSums) Bound, float func(floatSums) Bound) (Bound, error) {
	if item := itemType(args[0].Type); item != nil {
		switch item.ID() {
		case arrow.INT32:
			return whole(sumOf[int32]), nil
		case arrow.INT64:
			return whole(sumOf[int64]), nil
		case arrow.FLOAT32:
			return float(floatSum[float32]), nil
		case arrow.FLOAT64:
			return float(floatSum[float64]), nil
		default:
		}
	}
	return Bound{}, errTypes{}
}

func bindSum(args []Argument) (Bound, error) {
	whole := func(of wholeSums) Bound {
		return ofList("array_sum", int64Type(), func(items arrow.Array) func(from, to int) (int64, bool, *refusal) {
			add := of(items)
			return func(from, to int) (int64, bool, *refusal) {
				sum, count, why := add(from, to)
				return sum, count > 0, why
			}
		})
	}
	float := func(of floatSums) Bound {
		return ofList("array_sum", float64Type(), func(items arrow.Array) func(from, to int) (float64, bool, *refusal) {
			add := of(items)
			return func(from, to int) (float64, bool, *refusal) {
				sum, count := add(from, to)
				return sum, count > 0, nil
			}
		})
	}
	return overNumbers(args, whole, float)
}

func bindMean(args []Argument) (Bound, error) {
	whole := func(of wholeSums) Bound {
		return ofList("array_avg", float64Type(), func(items arrow.Array) func(from, to int) (float64, bool, *refusal) {
			add := of(items)
			return func(from, to int) (float64, bool, *refusal) {
				sum, count, why := add(from, to)
				return float64(sum) / float64(count), count > 0, why
			}
		})
	}
	float := func(of floatSums) Bound {
		return ofList("array_avg", float64Type(), func(items arrow.Array) func(from, to int) (float64, bool, *refusal) {
			add := of(items)
			return func(from, to int) (float64, bool, *refusal) {
				sum, count := add(from, to)
				return sum / float64(count), count > 0, nil
			}
		})
	}
	return overNumbers(args, whole, float)
}
