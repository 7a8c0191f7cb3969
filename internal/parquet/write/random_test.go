package write_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// primitives are the types of tables, with every width of decimals.
func primitives() []arrow.DataType {
	out := []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32,
		arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us,
		&arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
		&arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"},
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, &arrow.FixedSizeBinaryType{ByteWidth: 16}, &arrow.FixedSizeBinaryType{ByteWidth: 3},
	}
	for _, precision := range []int32{1, 9, 10, 18, 19, 25, 38} {
		out = append(out, &arrow.Decimal128Type{Precision: precision, Scale: precision / 3})
	}
	return out
}

// world makes random schemas and batches.
type world struct {
	rng  *rand.Rand
	next int // the next field id
}

func newWorld(seed uint64) *world { return &world{rng: rand.New(rand.NewPCG(seed, 35)), next: 1} }

// field returns a field of the type with an id.
func (w *world) field(name string, t arrow.DataType, nullable bool) arrow.Field {
	id := w.next
	w.next++
	return arrow.Field{Name: name, Type: t, Nullable: nullable, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})}
}

// kind returns a random type, nested up to a depth.
func (w *world) kind(depth int) arrow.DataType {
	half := func() bool { return w.rng.IntN(2) == 0 }
	if depth > 0 {
		switch w.rng.IntN(6) {
		case 0:
			return arrow.ListOfField(w.field("element", w.kind(depth-1), half()))
		case 1:
			return arrow.MapOfFields(w.field("key", primitives()[w.rng.IntN(14)], false), w.field("value", w.kind(depth-1), half()))
		case 2:
			fields := make([]arrow.Field, 1+w.rng.IntN(3))
			for i := range fields {
				fields[i] = w.field(fmt.Sprintf("s%d", i), w.kind(depth-1), half())
			}
			return arrow.StructOf(fields...)
		}
	}
	all := primitives()
	return all[w.rng.IntN(len(all))]
}

// schema returns a schema with some columns of random types.
func (w *world) schema(columns int) *arrow.Schema {
	fields := make([]arrow.Field, columns)
	for i := range fields {
		fields[i] = w.field(fmt.Sprintf("c%d", i), w.kind(2), w.rng.IntN(3) > 0)
	}
	return arrow.NewSchema(fields, nil)
}

// flat returns a schema with a nullable column of each primitive type.
func (w *world) flat() *arrow.Schema {
	var fields []arrow.Field
	for i, t := range primitives() {
		fields = append(fields, w.field(fmt.Sprintf("c%d", i), t, true))
	}
	return arrow.NewSchema(fields, nil)
}

// style is how the values of a column are distributed.
type style struct {
	nulls  float64
	values int // number of distinct values, roughly
	sorted bool
	nan    float64
	long   bool // some texts are very long
}

func (w *world) style() style {
	return style{
		nulls: [...]float64{0, 0.1, 0.9, 1}[w.rng.IntN(4)], values: [...]int{1, 5, 1000, 1 << 40}[w.rng.IntN(4)],
		sorted: w.rng.IntN(3) == 0, nan: [...]float64{0, 0.2, 1}[w.rng.IntN(3)], long: w.rng.IntN(4) == 0,
	}
}

// batch returns random rows.
func (w *world) batch(sc *arrow.Schema, rows int, styles []style) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for i, f := range sc.Fields() {
		for row := range rows {
			w.append(b.Field(i), f, styles[i], row)
		}
	}
	return b.NewRecordBatch()
}

// styles returns a style for each column.
func (w *world) styles(sc *arrow.Schema) []style {
	out := make([]style, sc.NumFields())
	for i := range out {
		out[i] = w.style()
	}
	return out
}

func (w *world) append(to array.Builder, f arrow.Field, s style, row int) {
	if f.Nullable && w.rng.Float64() < s.nulls {
		to.AppendNull()
		return
	}
	switch t := f.Type.(type) {
	case *arrow.ListType:
		b := to.(*array.ListBuilder)
		b.Append(true)
		for range w.rng.IntN(4) {
			w.append(b.ValueBuilder(), t.ElemField(), s, row)
		}
	case *arrow.MapType:
		b := to.(*array.MapBuilder)
		b.Append(true)
		for range w.rng.IntN(3) {
			w.append(b.KeyBuilder(), t.KeyField(), s, row)
			w.append(b.ItemBuilder(), t.ItemField(), s, row)
		}
	case *arrow.StructType:
		b := to.(*array.StructBuilder)
		b.Append(true)
		for i, c := range t.Fields() {
			w.append(b.FieldBuilder(i), c, s, row)
		}
	default:
		w.appendValue(to, f.Type, s, row)
	}
}

func (w *world) appendValue(to array.Builder, t arrow.DataType, s style, row int) {
	n := int64(w.rng.IntN(s.values)) - int64(s.values)/3
	if s.sorted {
		n = int64(row)*3 + n%2
	}
	switch b := to.(type) {
	case *array.BooleanBuilder:
		b.Append(n%2 == 0)
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n * 1_000_003)
	case *array.Date32Builder:
		b.Append(arrow.Date32(n % 100_000))
	case *array.Time64Builder:
		b.Append(arrow.Time64((n%86_400 + 86_400) % 86_400 * 1_000_000))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n % (1 << 40) * 1_000))
	case *array.Float32Builder:
		b.Append(float32(w.float(n, s)))
	case *array.Float64Builder:
		b.Append(w.float(n, s))
	case *array.Decimal128Builder:
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.(*arrow.Decimal128Type).Precision)), nil)
		v := new(big.Int).Mul(big.NewInt(n), new(big.Int).Exp(big.NewInt(7), big.NewInt(int64(w.rng.IntN(30))), nil))
		b.Append(decimal128.FromBigInt(v.Rem(v, limit)))
	case *array.StringBuilder:
		b.Append(w.text(n, s))
	case *array.BinaryBuilder:
		b.Append(append([]byte(strings.Repeat("\xff", int(n&1)*17)), []byte(w.text(n, s))...))
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, t.(*arrow.FixedSizeBinaryType).ByteWidth)
		copy(v, new(big.Int).Abs(big.NewInt(n*7_919)).Bytes())
		b.Append(v)
	default:
		panic(fmt.Sprintf("%T", to))
	}
}

func (w *world) float(n int64, s style) float64 {
	switch {
	case w.rng.Float64() < s.nan:
		return math.NaN()
	case n == 0 && w.rng.IntN(2) == 0:
		return math.Copysign(0, -1)
	default:
		return float64(n) / 8
	}
}

func (w *world) text(n int64, s style) string {
	endings := []string{"", "a", "\U0010ffff", "퟿", "é", "\x00"}
	switch {
	case n == 0:
		return ""
	case s.long && w.rng.IntN(10) == 0:
		return strings.Repeat(endings[1+w.rng.IntN(4)], 3000) + strconv.FormatInt(n, 10)
	case n%7 == 0:
		return strings.Repeat("\U0010ffff", 12+w.rng.IntN(8))
	default:
		return "value " + strings.Repeat(endings[w.rng.IntN(len(endings))], w.rng.IntN(4)) + strconv.FormatInt(n, 36)
	}
}
