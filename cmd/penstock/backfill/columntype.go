package backfill

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// maxDepth is the maximum nesting of a column's type.
const maxDepth = 50

// plainTypes returns the types without parameters, by name. The names are those of Iceberg, and
// those of Spark SQL unless Iceberg uses the same name for another type.
func plainTypes() map[string]arrow.DataType {
	long, local := arrow.PrimitiveTypes.Int64, &arrow.TimestampType{Unit: arrow.Microsecond}
	return map[string]arrow.DataType{
		"boolean": arrow.FixedWidthTypes.Boolean, "int": arrow.PrimitiveTypes.Int32, "long": long, "bigint": long,
		"float": arrow.PrimitiveTypes.Float32, "double": arrow.PrimitiveTypes.Float64, "date": arrow.FixedWidthTypes.Date32,
		"timestamp": local, "timestamp_ntz": local, "timestamptz": utc(), "timestamp_ltz": utc(),
		"string": arrow.BinaryTypes.String, "binary": arrow.BinaryTypes.Binary,
	}
}

func utc() *arrow.TimestampType {
	return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
}

// typesServed is the list of valid types in error messages.
const typesServed = "boolean, int, long, float, double, date, timestamp, timestamptz, string, binary, decimal(P, S), list<T>, map<K, V> or struct<NAME: T, …>"

// ParseFeature parses NAME:TYPE. TYPE is an Iceberg type, so timestamp has no time zone, unlike in
// Spark SQL. A name that contains a colon must be in backticks.
func ParseFeature(text string) (Feature, error) {
	p := typeParser{rest: text}
	f, err := p.field(0)
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q follows the type", fault.Shorten(p.rest, 20))
	}
	if err != nil {
		return Feature{}, fault.InvalidField("--column", "%s: %v", fault.Shorten(text, 80), err).
			WithRemedy("write NAME:TYPE, such as ctr:float, where the type is %s", typesServed)
	}
	return Feature{Name: f.Name, Type: f.Type}, nil
}

// typeParser parses a type from the beginning of rest.
type typeParser struct{ rest string }

func (p *typeParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

// take removes blanks and then sign from the beginning of the text, and reports whether sign was
// there.
func (p *typeParser) take(sign string) bool {
	p.blanks()
	var ok bool
	p.rest, ok = strings.CutPrefix(p.rest, sign)
	return ok
}

// must removes blanks and then sign from the beginning of the text. It returns an error if sign is
// not there.
func (p *typeParser) must(sign string) error {
	if p.take(sign) {
		return nil
	}
	return fmt.Errorf("%q is missing before %q", sign, fault.Shorten(p.rest, 20))
}

// name parses a name that ends before a colon, or a name in backticks. Within backticks, two
// backticks stand for one.
func (p *typeParser) name() (string, error) {
	p.blanks()
	out := ""
	if !p.take("`") {
		at := strings.IndexByte(p.rest, ':')
		if at < 0 {
			return "", errors.New("there is no colon between a name and its type")
		}
		out, p.rest = strings.TrimSpace(p.rest[:at]), p.rest[at:]
	} else {
		for {
			part, rest, ok := strings.Cut(p.rest, "`")
			if !ok {
				return "", errors.New("a backtick is missing")
			}
			out, p.rest = out+part, rest
			if !strings.HasPrefix(rest, "`") {
				break
			}
			out, p.rest = out+"`", rest[1:]
		}
	}
	if out == "" {
		return "", errors.New("a name is empty")
	}
	return out, nil
}

// field parses NAME:TYPE.
func (p *typeParser) field(depth int) (arrow.Field, error) {
	name, err := p.name()
	if err == nil {
		err = p.must(":")
	}
	if err != nil {
		return arrow.Field{}, err
	}
	t, err := p.parse(depth)
	return arrow.Field{Name: name, Type: t, Nullable: true}, err
}

// parse parses a type.
func (p *typeParser) parse(depth int) (arrow.DataType, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the type is nested deeper than %d levels", maxDepth)
	}
	p.blanks()
	end := strings.IndexFunc(p.rest, func(r rune) bool { return strings.ContainsRune("<>(),: \t", r) })
	if end < 0 {
		end = len(p.rest)
	}
	word := strings.ToLower(p.rest[:end])
	p.rest = p.rest[end:]
	switch word {
	case "list", "array":
		return p.list(depth)
	case "map":
		return p.mapOf(depth)
	case "struct":
		return p.structOf(depth)
	case "decimal":
		return p.decimal()
	}
	t, ok := plainTypes()[word]
	p.blanks()
	if !ok {
		return nil, fmt.Errorf("there is no type %q that Spark SQL can declare", word)
	}
	return t, nil
}

func (p *typeParser) list(depth int) (arrow.DataType, error) {
	if err := p.must("<"); err != nil {
		return nil, err
	}
	t, err := p.parse(depth + 1)
	if err == nil {
		err = p.must(">")
	}
	if err != nil {
		return nil, err
	}
	return arrow.ListOf(t), nil
}

func (p *typeParser) mapOf(depth int) (arrow.DataType, error) {
	if err := p.must("<"); err != nil {
		return nil, err
	}
	key, err := p.parse(depth + 1)
	if err == nil {
		err = p.must(",")
	}
	if err != nil {
		return nil, err
	}
	value, err := p.parse(depth + 1)
	if err == nil {
		err = p.must(">")
	}
	if err != nil {
		return nil, err
	}
	return arrow.MapOf(key, value), nil
}

func (p *typeParser) structOf(depth int) (arrow.DataType, error) {
	if err := p.must("<"); err != nil {
		return nil, err
	}
	var fields []arrow.Field
	for {
		f, err := p.field(depth + 1)
		if err != nil {
			return nil, err
		}
		for _, other := range fields {
			if strings.EqualFold(other.Name, f.Name) {
				return nil, fmt.Errorf("a struct has two fields %q, which Spark does not tell apart", f.Name)
			}
		}
		if fields = append(fields, f); p.take(",") {
			continue
		}
		if err := p.must(">"); err != nil {
			return nil, err
		}
		return arrow.StructOf(fields...), nil
	}
}

// maxDigits is the maximum precision of a decimal.
const maxDigits = 38

func (p *typeParser) decimal() (arrow.DataType, error) {
	digits, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimLeft(p.rest, " "), "("), ")")
	precision, scale, both := strings.Cut(digits, ",")
	n, err := strconv.Atoi(strings.TrimSpace(precision))
	s, scaleErr := strconv.Atoi(strings.TrimSpace(scale))
	if !ok || !both || err != nil || scaleErr != nil || n < 1 || n > maxDigits || s < 0 || s > n {
		return nil, fmt.Errorf("a decimal has a precision of 1 to %d and a scale up to it, as in decimal(9, 2)", maxDigits)
	}
	p.rest = rest
	return &arrow.Decimal128Type{Precision: int32(n), Scale: int32(s)}, nil //nolint:gosec // both are at most maxDigits
}

// sparkType returns the name of a type in Spark SQL, or false if it has none.
func sparkType(t arrow.DataType) (string, bool) {
	switch t := t.(type) {
	case *arrow.Decimal128Type:
		return fmt.Sprintf("DECIMAL(%d, %d)", t.Precision, t.Scale), true
	case *arrow.TimestampType:
		if t.Unit != arrow.Microsecond {
			return "", false
		}
		if t.TimeZone != "" {
			return "TIMESTAMP", true
		}
		return "TIMESTAMP_NTZ", true
	case *arrow.MapType:
		key, keyOK := sparkType(t.KeyType())
		value, valueOK := sparkType(t.ItemType())
		return "MAP<" + key + ", " + value + ">", keyOK && valueOK
	case *arrow.ListType:
		element, ok := sparkType(t.Elem())
		return "ARRAY<" + element + ">", ok
	case *arrow.StructType:
		fields := make([]string, t.NumFields())
		all := true
		for i, f := range t.Fields() {
			text, ok := sparkType(f.Type)
			fields[i], all = quoted(f.Name)+": "+text, all && ok
		}
		return "STRUCT<" + strings.Join(fields, ", ") + ">", all
	}
	return plainSparkType(t)
}

func plainSparkType(t arrow.DataType) (string, bool) {
	name, ok := map[arrow.Type]string{
		arrow.BOOL: "BOOLEAN", arrow.INT32: "INT", arrow.INT64: "BIGINT", arrow.FLOAT32: "FLOAT", arrow.FLOAT64: "DOUBLE",
		arrow.DATE32: "DATE", arrow.STRING: "STRING", arrow.BINARY: "BINARY",
	}[t.ID()]
	return name, ok
}
