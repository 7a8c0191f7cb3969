package partition

import (
	"bytes"
	"cmp"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// coder numbers the distinct values of one field.
type coder struct {
	of        arrow.DataType // the type of the column
	transform catalog.Transform
	null      int32 // the code of null; -1: not found yet
	// The codes of all values except null, in the list or map for the kind of the values.
	small    []int32         // for whole numbers below len(small): the code plus one; 0: not found yet
	wholes   map[int64]int32 // other whole numbers, booleans, and the bits of floats
	texts    map[string]int32
	decimals map[decimal128.Num]int32
	values   []any // by code: int64, string or decimal128.Num; nil is null
	bytes    int64
}

// maxSmall is the number of small values, from 0 on, whose codes are in a list instead of a map.
const maxSmall = 1 << 12

// valueBytes is an upper bound of the memory of a value besides its text.
const valueBytes = 96

func newCoder(column arrow.Field, t catalog.Transform) (*coder, error) {
	if !applies(t, column.Type) {
		return nil, fault.New(fault.Invalid, "a table cannot be partitioned by %s of column %s of type %s", t.Kind, column.Name, column.Type).
			WithRemedy("use identity of a primitive type, bucket of a type that has a hash, truncate of int, long, decimal, string or binary, " +
				"year, month or day of a date or timestamp, or hour of a timestamp")
	}
	if (t.Kind == catalog.Bucket || t.Kind == catalog.Truncate) && (t.N < 1 || t.N > math.MaxInt32) {
		return nil, fault.New(fault.Invalid, "%d is not a number for %s of column %s: it must be between 1 and %d", t.N, t.Kind, column.Name, math.MaxInt32)
	}
	return &coder{
		of: column.Type, transform: t, null: -1, small: make([]int32, maxSmall),
		wholes: map[int64]int32{}, texts: map[string]int32{}, decimals: map[decimal128.Num]int32{},
	}, nil
}

// applies reports whether a transform can be applied to columns of a type.
func applies(t catalog.Transform, dt arrow.DataType) bool {
	switch t.Kind {
	case catalog.Identity:
		switch dt.ID() {
		case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP,
			arrow.DECIMAL128, arrow.STRING, arrow.BINARY, arrow.FIXED_SIZE_BINARY:
			return true
		}
	case catalog.Bucket:
		return bucket.Supported(dt)
	case catalog.Truncate:
		switch dt.ID() {
		case arrow.INT32, arrow.INT64, arrow.DECIMAL128, arrow.STRING, arrow.BINARY:
			return true
		}
	case catalog.Year, catalog.Month, catalog.Day:
		return dt.ID() == arrow.DATE32 || isTimestamp(dt)
	case catalog.Hour:
		return isTimestamp(dt)
	case catalog.Other:
	}
	return false
}

// isTimestamp reports whether a type is a timestamp type that tables support.
func isTimestamp(dt arrow.DataType) bool {
	t, ok := dt.(*arrow.TimestampType)
	return ok && (t.Unit == arrow.Microsecond || t.Unit == arrow.Nanosecond)
}

// len returns the number of values, including null.
func (c *coder) len() int { return len(c.values) }

// add gives a value the next code.
func (c *coder) add(value any, bytes int) int32 {
	c.values = append(c.values, value)
	c.bytes += valueBytes + int64(bytes)
	return int32(len(c.values) - 1)
}

func (c *coder) codeOfNull() int32 {
	if c.null < 0 {
		c.null = c.add(nil, 0)
	}
	return c.null
}

func (c *coder) codeOfWhole(v int64) int32 {
	if uint64(v) < maxSmall {
		if c.small[v] == 0 {
			c.small[v] = c.add(v, 0) + 1
		}
		return c.small[v] - 1
	}
	code, ok := c.wholes[v]
	if !ok {
		code = c.add(v, 0)
		c.wholes[v] = code
	}
	return code
}

func (c *coder) codeOfText(v []byte) int32 {
	code, ok := c.texts[string(v)]
	if !ok {
		text := string(v)
		code = c.add(text, len(text))
		c.texts[text] = code
	}
	return code
}

func (c *coder) codeOfDecimal(v decimal128.Num) int32 {
	code, ok := c.decimals[v]
	if !ok {
		code = c.add(v, 0)
		c.decimals[v] = code
	}
	return code
}

// value returns the value of a code in the form that catalog.File uses.
func (c *coder) value(code int32) any {
	v := c.values[code]
	switch dt := c.of.(type) {
	case *arrow.Decimal128Type:
		if v, ok := v.(decimal128.Num); ok {
			return v.ToString(dt.Scale)
		}
	case *arrow.BooleanType:
		if v, ok := v.(int64); ok {
			return v != 0
		}
	case *arrow.Float32Type, *arrow.Float64Type:
		if v, ok := v.(int64); ok {
			return math.Float64frombits(uint64(v))
		}
	}
	return v
}

// compare compares two values, given by their codes. Floats are ordered as in sorted files.
func (c *coder) compare(code, other int32) int {
	switch a := c.values[code].(type) {
	case int64:
		b, ok := c.values[other].(int64)
		if !ok {
			return 1 // null is first
		}
		if c.of.ID() == arrow.FLOAT32 || c.of.ID() == arrow.FLOAT64 {
			return cmp.Compare(orderedBits(a), orderedBits(b))
		}
		return cmp.Compare(a, b)
	case string:
		b, ok := c.values[other].(string)
		if !ok {
			return 1
		}
		return cmp.Compare(a, b)
	case decimal128.Num:
		b, ok := c.values[other].(decimal128.Num)
		if !ok {
			return 1
		}
		return a.Cmp(b)
	default: // null
		if code == other {
			return 0
		}
		return -1
	}
}

// orderedBits maps the bits of a float to a number in the same order.
func orderedBits(bits int64) int64 { return bits ^ int64(uint64(bits>>63)>>1) }

// code writes to dst the code of the value in each row.
func (c *coder) code(dst []int32, a arrow.Array) error {
	if !arrow.TypeEqual(c.of, a.DataType()) {
		return fault.New(fault.Internal, "a column of type %s to partition by, %s expected", a.DataType(), c.of)
	}
	switch c.transform.Kind {
	case catalog.Bucket:
		return c.buckets(dst, a)
	case catalog.Identity, catalog.Truncate, catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		c.codeRows(dst, a)
		return nil
	case catalog.Other:
	}
	return fault.New(fault.Internal, "transform %s to partition by", c.transform.Kind)
}

func (c *coder) buckets(dst []int32, a arrow.Array) error {
	found, err := bucket.Array(dst[:0], a, c.transform.N)
	if err != nil {
		return err
	}
	for row, b := range found {
		if b == bucket.Null {
			dst[row] = c.codeOfNull()
		} else {
			dst[row] = c.codeOfWhole(int64(b))
		}
	}
	return nil
}

// codeRows writes codes row by row. A value that equals the value of the previous row is not looked
// up again.
func (c *coder) codeRows(dst []int32, a arrow.Array) {
	switch a := a.(type) {
	case *array.Boolean:
		eachValue(c, dst, a, func(row int) int64 {
			if a.Value(row) {
				return 1
			}
			return 0
		}, c.codeOfWhole)
	case *array.Int32:
		eachValue(c, dst, a, a.Value, func(v int32) int32 { return c.codeOfWhole(int64(c.whole32(v))) })
	case *array.Int64:
		eachValue(c, dst, a, a.Value, func(v int64) int32 { return c.codeOfWhole(c.whole64(v)) })
	case *array.Date32:
		eachValue(c, dst, a, a.Value, func(v arrow.Date32) int32 { return c.codeOfWhole(ofDays(c.transform.Kind, int64(v))) })
	case *array.Time64:
		eachValue(c, dst, a, a.Value, func(v arrow.Time64) int32 { return c.codeOfWhole(int64(v)) })
	case *array.Timestamp:
		perHour := unitsPerHour(a.DataType())
		eachValue(c, dst, a, a.Value, func(v arrow.Timestamp) int32 { return c.codeOfWhole(ofTime(c.transform.Kind, int64(v), perHour)) })
	case *array.Float32:
		eachValue(c, dst, a, func(row int) uint64 { return floatBits(float64(a.Value(row))) }, func(v uint64) int32 { return c.codeOfWhole(int64(v)) })
	case *array.Float64:
		eachValue(c, dst, a, func(row int) uint64 { return floatBits(a.Value(row)) }, func(v uint64) int32 { return c.codeOfWhole(int64(v)) })
	case *array.Decimal128:
		eachValue(c, dst, a, a.Value, func(v decimal128.Num) int32 { return c.codeOfDecimal(c.decimal(v)) })
	case *array.String:
		c.eachText(dst, a, func(row int) []byte { return truncatedText([]byte(a.Value(row)), c.width()) })
	case *array.Binary:
		c.eachText(dst, a, func(row int) []byte { v := a.Value(row); return v[:min(len(v), c.width())] })
	case *array.FixedSizeBinary:
		c.eachText(dst, a, a.Value)
	}
}

// eachValue writes the code of each row. It takes one function that returns the value of a row, and
// another that returns the code of a value.
func eachValue[T comparable](c *coder, dst []int32, a arrow.Array, value func(row int) T, codeOf func(T) int32) {
	var last T
	known := int32(-1)
	for row := range dst {
		if a.IsNull(row) {
			dst[row] = c.codeOfNull()
			continue
		}
		if v := value(row); v != last || known < 0 {
			last, known = v, codeOf(v)
		}
		dst[row] = known
	}
}

// eachText is eachValue for bytes.
func (c *coder) eachText(dst []int32, a arrow.Array, value func(row int) []byte) {
	var last []byte
	known := int32(-1)
	for row := range dst {
		if a.IsNull(row) {
			dst[row] = c.codeOfNull()
			continue
		}
		if v := value(row); known < 0 || !bytes.Equal(v, last) {
			last, known = v, c.codeOfText(v)
		}
		dst[row] = known
	}
}
