package scenario

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
)

// payloadKinds are types of columns other than keys: all types that tables have, plain
// and nested.
//
//nolint:gochecknoglobals // a constant table
var payloadKinds = []string{
	"int", "long", "float", "double", "boolean", "string", "binary", "uuid", "fixed(3)", "date", "time", "timestamp", "timestamptz",
	"timestamp_ns", "timestamptz_ns", "decimal(9,2)", "decimal(18,0)", "decimal(38,10)",
	"list<string>", "list<double>", "list<list<long>>", "struct<a:long,b:string>", "map<string,long>",
	"list<struct<a:int!,b:timestamp>>", "map<uuid,list<string>>", "struct<a:struct<b:double,c:list<binary>>,d:map<long,struct<e:date>>>",
}

// plainKinds is the number of leading payloadKinds that are not nested.
const plainKinds = 18

// columns returns a part of a header with columns of random types, named name0, name1
// and so on.
func (g *generator) columns(name string, n int) string {
	words := make([]string, n)
	for i := range words {
		kind := payloadKinds[g.IntN(plainKinds)]
		if g.chance(3) {
			kind = pick(g.Rand, payloadKinds[plainKinds:]...)
		}
		g.Layouts["payload "+strings.SplitN(strings.SplitN(kind, "<", 2)[0], "(", 2)[0]]++
		if g.chance(6) {
			kind += "!"
		}
		words[i] = fmt.Sprintf("%s%d:%s", name, i, kind)
	}
	return strings.Join(words, " ")
}

// words returns a random row of columns, given as a part of a header.
func (g *generator) words(header string) []string {
	fields, _ := Fields(header) // cannot fail: the generator wrote the header
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = word(f.Type, g.orNull(f.Type, !f.Required, 8))
	}
	return words
}

// orNull returns a value, or a null with probability 1/once if the column is nullable.
func (g *generator) orNull(dt arrow.DataType, nullable bool, once int) any {
	if nullable && g.chance(once) {
		return nil
	}
	return g.value(dt)
}

// samePrefix is a long prefix that several texts have in common.
const samePrefix = "forty bytes that all of these begin with"

// value returns one of a few values of a type, including extreme values.
func (g *generator) value(dt arrow.DataType) any {
	switch dt := dt.(type) {
	case *arrow.Int32Type:
		return pick(g.Rand, int64(0), 1, 2, -1, math.MaxInt32, math.MinInt32)
	case *arrow.Int64Type:
		return pick(g.Rand, int64(0), 1, 2, -1, math.MaxInt64, math.MinInt64, 1<<53+1)
	case *arrow.Float32Type:
		return pick(g.Rand, 0, math.Copysign(0, -1), 0.5, float64(float32(0.1)), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, math.SmallestNonzeroFloat32, -7.25)
	case *arrow.Float64Type:
		return pick(g.Rand, 0, math.Copysign(0, -1), 0.5, 0.1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, -7.25)
	case *arrow.BooleanType:
		return g.chance(2)
	case *arrow.StringType:
		return pick(g.Rand, "", "x", "yy", "a b", "it's", `"q"`, "-", "null", "[x", "a%b_c\\", "\x00", "x\x00", "x\x00y", "\x01", "é", "😀", "😀😀😀😀!", "\u00a0", "\U0010ffff\U0010ffff\U0010ffff\U0010ffff\U0010ffff",
			samePrefix+"1", samePrefix+"2", samePrefix)
	case *arrow.BinaryType:
		return pick(g.Rand, "", "\x00", "\x00\x00", "x", "x\x00", "\xff", "\xff\xff\xff\xff\xff", samePrefix+"\x00", samePrefix+"\xff")
	case *arrow.FixedSizeBinaryType:
		raw := make([]byte, dt.ByteWidth)
		for i := range raw {
			raw[i] = pick[byte](g.Rand, 0, 0, 1, 0x80, 0xff)
		}
		return string(raw)
	case *arrow.Decimal128Type:
		maxUnscaled := new(big.Int).Sub(cell.PowerOfTen(dt.Precision), big.NewInt(1))
		return cell.NewDecimal(pick(g.Rand, big.NewInt(0), big.NewInt(1), big.NewInt(-1), big.NewInt(150), big.NewInt(-12345), maxUnscaled, new(big.Int).Neg(maxUnscaled)), dt.Scale)
	case *arrow.Date32Type:
		return pick(g.Rand, int64(0), -1, 19782, -25567, -719162, -719528, -800000, 2932896)
	case *arrow.Time64Type:
		return pick(g.Rand, int64(0), 1, 45_000_000_000, 86_399_999_999)
	case *arrow.TimestampType:
		return g.instant(dt.Unit)
	default:
		return g.nested(dt)
	}
}

// instant returns a timestamp before, at or after 1970, or a microsecond before the
// year 1.
func (g *generator) instant(unit arrow.TimeUnit) any {
	if unit == arrow.Nanosecond {
		return pick(g.Rand, int64(0), -1, 1, 999, 1_709_210_096_000_000_001, -2_208_988_800_000_000_001, math.MaxInt64, math.MinInt64)
	}
	return pick(g.Rand, int64(0), -1, 1, 1_709_210_096_000_001, -2_208_988_800_000_000, -62_135_596_800_000_001, 253_402_300_799_999_999)
}

func (g *generator) nested(dt arrow.DataType) any {
	switch dt := dt.(type) {
	case *arrow.ListType:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.orNull(dt.Elem(), dt.ElemField().Nullable, 5))
		}
		return list
	case *arrow.MapType:
		entries := cell.Map{}
		for range g.IntN(4) {
			key := g.value(dt.KeyType())
			if !slices.ContainsFunc(entries, func(e cell.Entry) bool { return e.Key == key }) {
				entries = append(entries, cell.Entry{Key: key, Value: g.orNull(dt.ItemType(), dt.ItemField().Nullable, 5)})
			}
		}
		return entries
	case *arrow.StructType:
		fields := make(cell.Struct, dt.NumFields())
		for i, f := range dt.Fields() {
			fields[i] = g.orNull(f.Type, f.Nullable, 5)
		}
		return fields
	default:
		return nil
	}
}

// specialKeys returns extreme keys. They are chosen such that truncating them does not overflow
// their type, because Iceberg defines no result for an overflow.
func (g *generator) specialKeys() []any {
	fields, _ := Fields("k:" + g.kind.training) // cannot fail: the type is from the table of kinds
	switch dt := fields[0].Type.(type) {
	case *arrow.Int32Type:
		return []any{int64(math.MaxInt32), int64(math.MinInt32 + 100), int64(0), int64(-1)}
	case *arrow.Int64Type:
		if g.kind.staging == "int" {
			return []any{int64(math.MaxInt32), int64(math.MinInt32 + 100), int64(0), int64(-1)}
		}
		return []any{int64(math.MaxInt64), int64(math.MinInt64 + 100), int64(0), int64(-1), int64(1) << 32}
	case *arrow.StringType:
		return []any{"", "k 1", `k"`, "it's", "-", "\x00", "k\x00", "k\x00\x00", "é", "😀", "k😀", samePrefix + "1", samePrefix + "2"}
	case *arrow.BinaryType:
		return []any{"", "\x00", "\x00\x00", "\x00\xff", "\xff\xff", samePrefix + "\x00", samePrefix + "\x01"}
	case *arrow.Decimal128Type:
		large := strings.Repeat("8", int(dt.Precision))
		n, _ := new(big.Int).SetString(large, 10)
		return []any{cell.NewDecimal(n, dt.Scale), cell.NewDecimal(new(big.Int).Neg(n), dt.Scale), cell.NewDecimal(big.NewInt(0), dt.Scale), cell.NewDecimal(big.NewInt(-1), dt.Scale)}
	case *arrow.Date32Type:
		return []any{int64(0), int64(-1), int64(-25567), int64(-719162), int64(-800000), int64(2932896)}
	case *arrow.Time64Type:
		return []any{int64(0), int64(86_399_999_999)}
	case *arrow.TimestampType:
		if dt.Unit == arrow.Nanosecond {
			return []any{int64(0), int64(-1), int64(-999), int64(-1000), int64(-2_208_988_800_000_000_001)}
		}
		return []any{int64(0), int64(-1), int64(-2_208_988_800_000_000), int64(-62_135_596_800_000_001), int64(253_402_300_799_999_999)}
	default:
		return nil
	}
}

// trainingPayload and stagingPayload are the names of the columns of random types.
//
//nolint:gochecknoglobals // constant lists
var (
	trainingPayload = []string{"p0", "p1", "p2"}
	stagingPayload  = []string{"p0", "p1"}
)
