package resolve

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

const (
	secondsPerHour = 3600
	monthsPerYear  = 12
	epochYear      = 1970
)

// unit is the length of time that each partition of a field covers, or, if the field's values are
// not times, the kind of these values. Units of time are in descending order of length.
type unit int

const (
	noUnit unit = iota
	yearUnit
	monthUnit
	dayUnit
	hourUnit
	microUnit // identity of a timestamp
	nanoUnit
	wholeUnit // identity of an int or long
	textUnit  // identity of a string
)

func (u unit) String() string {
	return [...]string{"?", "year", "month", "day", "hour", "microsecond", "nanosecond", "number", "string"}[u]
}

// temporal reports whether the values are spans of time.
func (u unit) temporal() bool { return u > noUnit && u < wholeUnit }

// calendarUnit returns the unit of a time transform.
func calendarUnit(kind catalog.TransformKind) unit {
	switch kind {
	case catalog.Year:
		return yearUnit
	case catalog.Month:
		return monthUnit
	case catalog.Day:
		return dayUnit
	case catalog.Hour:
		return hourUnit
	case catalog.Identity, catalog.Bucket, catalog.Truncate, catalog.Other:
	}
	return noUnit
}

// unitOf returns the unit of a partition field, given the type of its column; noUnit if its
// partitions cannot be aligned.
func unitOf(p catalog.PartitionField, t arrow.DataType) unit {
	if p.Transform.Kind != catalog.Identity {
		return calendarUnit(p.Transform.Kind)
	}
	switch t := t.(type) {
	case *arrow.Date32Type:
		return dayUnit
	case *arrow.TimestampType:
		if t.Unit == arrow.Nanosecond {
			return nanoUnit
		}
		return microUnit
	case *arrow.Int32Type, *arrow.Int64Type:
		return wholeUnit
	case *arrow.StringType:
		return textUnit
	default:
		return noUnit
	}
}

// start returns when a partition of a unit of time starts, in UTC. Ordinals count from 1970.
func (u unit) start(ordinal int64) time.Time {
	switch u {
	case yearUnit:
		return time.Date(epochYear+int(ordinal), time.January, 1, 0, 0, 0, 0, time.UTC)
	case monthUnit:
		return time.Date(epochYear, time.January+time.Month(ordinal), 1, 0, 0, 0, 0, time.UTC)
	case dayUnit:
		return time.Unix(ordinal*hoursPerDay*secondsPerHour, 0).UTC()
	case hourUnit:
		return time.Unix(ordinal*secondsPerHour, 0).UTC()
	case nanoUnit:
		return time.Unix(0, ordinal).UTC()
	case noUnit, microUnit, wholeUnit, textUnit:
	}
	return time.UnixMicro(ordinal).UTC()
}

// at returns the ordinal of the partition that contains a time.
func (u unit) at(t time.Time) int64 {
	switch u {
	case yearUnit:
		return int64(t.Year() - epochYear)
	case monthUnit:
		return int64(t.Year()-epochYear)*monthsPerYear + int64(t.Month()-time.January)
	case dayUnit:
		return days(t)
	case hourUnit:
		return floorDiv(t.Unix(), secondsPerHour)
	case nanoUnit:
		return t.UnixNano()
	case noUnit, microUnit, wholeUnit, textUnit:
	}
	return t.UnixMicro()
}

// length returns the length of the unit if it is fixed, else 0.
func (u unit) length() time.Duration {
	switch u {
	case dayUnit:
		return hoursPerDay * time.Hour
	case hourUnit:
		return time.Hour
	case microUnit:
		return time.Microsecond
	case nanoUnit:
		return time.Nanosecond
	case noUnit, yearUnit, monthUnit, wholeUnit, textUnit:
	}
	return 0
}
