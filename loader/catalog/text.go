package catalog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
)

// Text formats a partition value of the field for display: a month as 2026-10, a day or a
// date as 2026-10-01, an hour as 2026-10-01-13, a timestamp as 2026-10-01T13:00:00, a UUID in its
// usual form, other binary values in hexadecimal, and null as null. The column is the field's source, or the zero
// Field if the table no longer has it.
func (p PartitionField) Text(value any, column Field) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case int64:
		return p.wholeText(v, column.Type)
	case string:
		if column.Declared != nil && len(v) == len(uuid.UUID{}) { // only primitive columns have partition fields
			return uuid.UUID([]byte(v)).String()
		}
		switch column.Type.(type) {
		case *arrow.BinaryType, *arrow.FixedSizeBinaryType:
			return fmt.Sprintf("%x", v)
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// wholeText formats an int64 partition value: a number, or a number of time units since 1970.
func (p PartitionField) wholeText(v int64, typ arrow.DataType) string {
	const hour, day = 60 * 60, 24 * 60 * 60 // in seconds
	epoch := time.Unix(0, 0).UTC()
	switch p.Transform.Kind {
	case Year:
		return epoch.AddDate(int(v), 0, 0).Format("2006")
	case Month:
		return epoch.AddDate(0, int(v), 0).Format("2006-01")
	case Day:
		return time.Unix(v*day, 0).UTC().Format(time.DateOnly)
	case Hour:
		return time.Unix(v*hour, 0).UTC().Format("2006-01-02-15")
	case Identity, Truncate:
		return valueText(v, typ)
	case Bucket, Other:
	}
	return strconv.FormatInt(v, 10)
}

// valueText formats a column's value that is stored as an integer.
func valueText(v int64, typ arrow.DataType) string {
	switch t := typ.(type) {
	case *arrow.Date32Type:
		return arrow.Date32(v).FormattedString()
	case *arrow.Time64Type:
		return arrow.Time64(v).FormattedString(arrow.Microsecond)
	case *arrow.TimestampType:
		zone := ""
		if t.TimeZone != "" {
			zone = "Z"
		}
		return arrow.Timestamp(v).ToTime(t.Unit).Format("2006-01-02T15:04:05.999999999") + zone
	default:
		return strconv.FormatInt(v, 10)
	}
}
