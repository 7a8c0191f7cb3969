package convert

import (
	"encoding/binary"
)

const (
	// epochDay is the Julian day number of 1970-01-01. INT96 days begin at midnight.
	epochDay = 2_440_588

	secondsPerDay = 24 * 60 * 60
	// MicrosPerDay is the number of microseconds of a day.
	MicrosPerDay  = secondsPerDay * 1_000_000
	nanosPerDay   = secondsPerDay * 1_000_000_000
	nanosPerMicro = 1000
)

// int96ToMicros returns the microsecond that contains an INT96 instant, rounded down as
// in Iceberg. It returns false on overflow.
func int96ToMicros(stored []byte) (int64, bool) {
	day, nanos := splitInt96(stored)
	return instantOf(day, MicrosPerDay, nanos/nanosPerMicro)
}

// int96ToNanos returns the nanosecond of an INT96 instant. It returns false on overflow.
func int96ToNanos(stored []byte) (int64, bool) {
	day, nanos := splitInt96(stored)
	return instantOf(day, nanosPerDay, nanos)
}

// splitInt96 returns the days since 1970 and the nanoseconds since midnight. The stored
// nanoseconds may be negative or exceed a day.
func splitInt96(stored []byte) (day, nanos int64) {
	nanos = int64(binary.LittleEndian.Uint64(stored))                     //nolint:gosec // bits of a signed number
	day = int64(int32(binary.LittleEndian.Uint32(stored[8:]))) - epochDay //nolint:gosec // bits of a signed number
	day, nanos = day+nanos/nanosPerDay, nanos%nanosPerDay
	if nanos < 0 {
		day, nanos = day-1, nanos+nanosPerDay
	}
	return day, nanos
}

// Midnight returns the microsecond at which a day since 1970 starts. It returns false on overflow.
func Midnight(day int64) (int64, bool) { return instantOf(day, MicrosPerDay, 0) }

// instantOf returns the instant, in units since 1970, that is the given number of units after
// midnight of a day. perDay is the number of units of a day. It returns false on overflow.
func instantOf(day, perDay, units int64) (int64, bool) {
	if day < 0 { // the midnight of the first representable day may be out of range
		day, units = day+1, units-perDay
	}
	whole := day * perDay
	sum := whole + units
	return sum, whole/perDay == day && (units < 0) == (sum < whole)
}
