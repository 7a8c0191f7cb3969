package joiner

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// renderLimit is how many bytes of a string or binary key an error shows.
const renderLimit = 80

// render writes a row's key for a person: "request_id=42, day=2026-10-01".
func render(fields []arrow.Field, arrays []arrow.Array, row int) string {
	values := make([]string, len(arrays))
	for i, a := range arrays {
		values[i] = fields[i].Name + "=" + renderValue(a, row)
	}
	return strings.Join(values, ", ")
}

func renderValue(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "null"
	}
	var form string
	var value []byte
	switch a := a.(type) {
	case *array.String:
		form, value = "%q", []byte(a.Value(row))
	case *array.LargeString:
		form, value = "%q", []byte(a.Value(row))
	case *array.Binary:
		form, value = "0x%x", a.Value(row)
	case *array.LargeBinary:
		form, value = "0x%x", a.Value(row)
	case *array.FixedSizeBinary:
		form, value = "0x%x", a.Value(row)
	default:
		return a.ValueStr(row)
	}
	if len(value) > renderLimit {
		return fmt.Sprintf(form, value[:renderLimit]) + fmt.Sprintf("… (%d bytes)", len(value))
	}
	return fmt.Sprintf(form, value)
}
