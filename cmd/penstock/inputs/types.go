package inputs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
)

// typeNames returns, by their Iceberg names, the types whose values can be parsed from texts.
// Decimals are not among them, because their names have parameters.
func typeNames() map[string]arrow.DataType {
	return map[string]arrow.DataType{
		"boolean": arrow.FixedWidthTypes.Boolean, "int": arrow.PrimitiveTypes.Int32, "long": arrow.PrimitiveTypes.Int64,
		"float": arrow.PrimitiveTypes.Float32, "double": arrow.PrimitiveTypes.Float64, "date": arrow.FixedWidthTypes.Date32,
		"time": arrow.FixedWidthTypes.Time64us, "timestamp": &arrow.TimestampType{Unit: arrow.Microsecond},
		"timestamptz": arrow.FixedWidthTypes.Timestamp_us, "string": arrow.BinaryTypes.String, "uuid": extensions.NewUUIDType(),
	}
}

// typeRemedy is the remedy of errors about --schema. It lists the valid types.
const typeRemedy = "write it as 'id: long, price: decimal(9,2)', with boolean, int, long, float, double, decimal(p,s), date, time, timestamp, timestamptz, string or uuid"

// schemaColumn matches a column in the value of --schema, such as "price: decimal(9,2)", with the
// comma that follows it.
var schemaColumn = regexp.MustCompile(`^\s*([^:,]+?)\s*:\s*(\w+)\s*(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?\s*(?:,|$)`)

// ParseTypes parses the types of columns from a text such as "id: long, price: decimal(9,2)". It
// returns Invalid for malformed texts.
func ParseTypes(text string) ([]arrow.Field, error) {
	var out []arrow.Field
	known := typeNames()
	for rest := text; strings.TrimSpace(rest) != ""; {
		parts := schemaColumn.FindStringSubmatch(rest)
		if parts == nil {
			return nil, fault.InvalidField("schema", "%q is not a list of columns and types", strings.TrimSpace(rest)).WithRemedy("%s", typeRemedy)
		}
		rest = rest[len(parts[0]):]
		typed, ok := known[parts[2]]
		if parts[2] == "decimal" && parts[3] != "" {
			precision, _ := strconv.Atoi(parts[3])
			scale, _ := strconv.Atoi(parts[4])
			typed, ok = &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, precision <= 38 && scale <= precision //nolint:gosec,mnd // at most 38
		} else if parts[3] != "" {
			ok = false
		}
		if _, twice := typeOf(out, parts[1]); !ok || twice {
			return nil, fault.InvalidField("schema", "column %s has an unknown type, or is named twice", parts[1]).WithRemedy("%s", typeRemedy)
		}
		out = append(out, arrow.Field{Name: parts[1], Type: typed, Nullable: true})
	}
	return out, nil
}

// readable reports whether texts can be read as values of a type.
func readable(t arrow.DataType) bool {
	if t.ID() == arrow.DECIMAL128 {
		return true
	}
	for _, known := range typeNames() {
		if arrow.TypeEqual(t, known) {
			return true
		}
	}
	return false
}

var (
	errNotValue = errors.New("the text is not a value of the type")
	decimalText = regexp.MustCompile(`^[+-]?0*(\d*)(?:\.(\d*?)0*)?$`)
	digits      = regexp.MustCompile(`^[+-]?\d+$`)
)

// appendText parses a text as a value of a builder's type, and appends the value. It returns an
// error unless the type can represent the text exactly: values are not rounded, and numbers are not
// accepted as dates or times.
func appendText(b array.Builder, text string) error {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(text)
		return nil
	case *array.Int32Builder:
		n, err := strconv.ParseInt(text, 10, 32)
		b.Append(int32(n)) //nolint:gosec // a number that does not fit into 32 bits is an error
		return err
	case *array.Int64Builder:
		n, err := strconv.ParseInt(text, 10, 64)
		b.Append(n)
		return err
	case *extensions.UUIDBuilder:
		id, err := uuid.Parse(text)
		if err != nil || len(text) != len(id.String()) { // the library also accepts other forms of UUIDs
			return errNotValue
		}
		b.Append(id)
		return nil
	case *array.Decimal128Builder:
		of := b.Type().(*arrow.Decimal128Type)
		parts := decimalText.FindStringSubmatch(text)
		if parts == nil || !strings.ContainsAny(text, "0123456789") || len(parts[1]) > int(of.Precision-of.Scale) || len(parts[2]) > int(of.Scale) {
			return errNotValue
		}
	default:
		if text == array.NullValueStr || digits.MatchString(text) && isTime(b.Type()) {
			return errNotValue
		}
	}
	return b.AppendValueFromString(text)
}

// isTime reports whether values of a type are dates or times.
func isTime(t arrow.DataType) bool {
	return t.ID() == arrow.DATE32 || t.ID() == arrow.TIMESTAMP || t.ID() == arrow.TIME64
}

// typeName returns the name of a type in Iceberg.
func typeName(t arrow.DataType) string {
	for name, known := range typeNames() {
		if arrow.TypeEqual(t, known) {
			return name
		}
	}
	return fmt.Sprint(t)
}
