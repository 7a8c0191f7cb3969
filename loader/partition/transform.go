package partition

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock/penstock/loader/catalog"
)

// whole32 and whole64 return the partition value of an integer. Truncation rounds it down to a
// multiple of the width, in the arithmetic of its type.
func (c *coder) whole32(v int32) int32 {
	if c.transform.Kind != catalog.Truncate {
		return v
	}
	w := int32(c.transform.N)
	return v - int32((int64(v%w)+int64(w))%int64(w))
}

func (c *coder) whole64(v int64) int64 {
	if c.transform.Kind != catalog.Truncate {
		return v
	}
	w := int64(c.transform.N)
	return v - ((v%w)+w)%w
}

// decimal returns the partition value of a decimal. Truncation rounds the unscaled value down to a
// multiple of the width.
func (c *coder) decimal(v decimal128.Num) decimal128.Num {
	if c.transform.Kind != catalog.Truncate {
		return v
	}
	w := decimal128.FromI64(int64(c.transform.N))
	_, rest := v.Div(w)
	if rest.Sign() < 0 {
		rest = rest.Add(w)
	}
	return v.Sub(rest)
}

// width returns the maximum number of characters or bytes of the partition value of a text.
func (c *coder) width() int {
	if c.transform.Kind != catalog.Truncate {
		return math.MaxInt
	}
	return c.transform.N
}

// truncatedText returns the first characters of a text.
func truncatedText(v []byte, characters int) []byte {
	if len(v) <= characters {
		return v
	}
	end := 0
	for range characters {
		if end == len(v) {
			break
		}
		_, size := utf8.DecodeRune(v[end:])
		end += size
	}
	return v[:end]
}

// floatBits returns the bits of a float. All NaN values have the same bits.
func floatBits(v float64) uint64 {
	if math.IsNaN(v) {
		v = math.NaN()
	}
	return math.Float64bits(v)
}

// The lengths of units of time.
const (
	hoursPerDay   = 24
	monthsPerYear = 12
	firstYear     = 1970
	secondsPerDay = 24 * 60 * 60
)

// unitsPerHour returns the number of units of a timestamp in an hour.
func unitsPerHour(dt arrow.DataType) int64 {
	if dt.(*arrow.TimestampType).Unit == arrow.Nanosecond {
		return int64(time.Hour)
	}
	return time.Hour.Microseconds()
}

// ofTime returns the partition value of a timestamp: hours, days, months or years since 1970,
// rounded down.
func ofTime(kind catalog.TransformKind, v, perHour int64) int64 {
	switch kind {
	case catalog.Hour:
		return floorOf(v, perHour)
	case catalog.Year, catalog.Month, catalog.Day:
		return ofDays(kind, floorOf(v, perHour*hoursPerDay))
	case catalog.Identity, catalog.Bucket, catalog.Truncate, catalog.Other:
	}
	return v
}

// ofDays returns the partition value of a date, which is given in days since 1970.
func ofDays(kind catalog.TransformKind, days int64) int64 {
	switch kind {
	case catalog.Year:
		return int64(time.Unix(days*secondsPerDay, 0).UTC().Year() - firstYear)
	case catalog.Month:
		at := time.Unix(days*secondsPerDay, 0).UTC()
		return int64((at.Year()-firstYear)*monthsPerYear + int(at.Month()) - 1)
	case catalog.Identity, catalog.Bucket, catalog.Truncate, catalog.Day, catalog.Hour, catalog.Other:
	}
	return days
}

// floorOf returns a/b, rounded down.
func floorOf(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
