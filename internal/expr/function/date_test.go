package function

import (
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// call runs a function on columns of values. A literal has one value, and the other arguments have the same number.
func call(t *testing.T, name string, args []generator, columns ...[]any) (arrow.Array, error) {
	t.Helper()
	c := trial{name: name, args: args}
	n := 0
	for _, values := range columns {
		n = max(n, len(values))
	}
	in := c.rows(t, n, columns)
	return in.run(t, c.bind(t, in), 0, n)
}

// TestNanoseconds checks that nanoseconds before 1970 belong to the second before: DuckDB rounds them to microseconds first.
//
// spec: function-9
func TestNanoseconds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"year": 1969, "month": 12, "day": 31, "hour": 23, "minute": 59, "second": 59, "isodow": 3, "unix_micros": -1, "unix_seconds": -1} {
		out, err := call(t, name, []generator{timestamps(nanos)}, []any{arrow.Timestamp(-1)})
		require.NoError(t, err)
		require.Equal(t, want, out.(*array.Int64).Value(0), name)
		out.Release()
	}
	unit := textLiteral("year")
	_, err := call(t, "date_trunc", []generator{unit, timestamps(nanos)}, []any{"year"}, []any{arrow.Timestamp(math.MinInt64 + 1)})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// TestCivilDates compares the calendar with Go's for each day of 1,000 years.
func TestCivilDates(t *testing.T) {
	t.Parallel()
	for day := int64(-200_000); day < 200_000; day++ {
		at := time.Unix(day*secondsPerDay, 0).UTC()
		y, m, d := civil(day)
		_, week := at.ISOWeek()
		if y != int64(at.Year()) || m != int64(at.Month()) || d != int64(at.Day()) || daysOf(y, m, d) != day || isoWeek(day) != int64(week) {
			require.Fail(t, "another date", "%s is %d-%d-%d in week %d", at, y, m, d, isoWeek(day))
		}
	}
}

// spec: function-10
func TestDatesOutsideOfYearsFail(t *testing.T) {
	t.Parallel()
	for _, day := range []arrow.Date32{math.MinInt32, math.MaxInt32, firstDay - 1, lastDay + 1} {
		_, err := call(t, "month", []generator{dates()}, []any{arrow.Date32(0), nil, day})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	for _, x := range []int64{math.MinInt64, math.MaxInt64, (lastSecond + 1) * microsPerSecond} {
		_, err := call(t, "hour", []generator{timestamps(micros)}, []any{arrow.Timestamp(x)})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		_, err = call(t, "timestamp_micros", []generator{ints64()}, []any{x})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}
