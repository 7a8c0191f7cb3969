package resolve

import (
	"cmp"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

const hoursPerDay = 24

// time binds a point-in-time rule.
func (b *binder) time(p *dataset.PointInTime, training, staging *catalog.Table, at string) *Time {
	if p == nil {
		return nil
	}
	t, okT := b.column(training, p.Training, at+".training")
	s, okS := b.column(staging, p.Staging, at+".staging")
	if !okT || !okS {
		return nil
	}
	unit, ok := timeUnit(t.Type)
	switch {
	case !ok:
		b.fault(at+".training", "", "column %s.%s of type %s is not a time: use a date, a timestamp or a long", training.Name, t.Name, t.Type)
	case !arrow.TypeEqual(t.Type, s.Type):
		b.fault(at+".staging", "", "%s.%s is %s and %s.%s is %s: times of these types cannot be compared%s",
			training.Name, t.Name, t.Type, staging.Name, s.Name, s.Type, rewriteOf(t.Type, s.Type))
	default:
		return &Time{Training: t, Staging: s, Tolerance: b.tolerance(p, t, unit, at+".tolerance"), Exact: p.Exact}
	}
	return nil
}

// rewriteOf says how the times of a staging column can be compared with those of a training column, as the end of a sentence.
// It returns "" if either is no time.
func rewriteOf(training, staging arrow.DataType) string {
	_, ok := timeUnit(staging)
	switch to, zoned := training.(*arrow.TimestampType); {
	case !ok || training.ID() == arrow.INT64 || staging.ID() == arrow.INT64:
		return ""
	case zoned && to.TimeZone != "":
		return "; write those of the staging table as timestamptz, with UTC as the zone of times that have none"
	default:
		return "; write those of the staging table in the type of the training table"
	}
}

// tolerance returns how much older a staging row may be, in the units of the times.
func (b *binder) tolerance(p *dataset.PointInTime, of catalog.Field, unit time.Duration, at string) int64 {
	out, given := int64(p.Tolerance.Time/unit), p.Tolerance
	if of.Type.ID() == arrow.INT64 {
		out = given.Count
	}
	switch {
	case given.Count < 0 || given.Time < 0:
		b.fault(at, "", "the tolerance is negative")
	case given.Time != 0 && of.Type.ID() == arrow.INT64:
		b.fault(at, "", "%s is a duration, but %s is a long, which has no known unit: write a count, such as 86400 for a day in seconds", given, of.Name)
	case given.Count != 0 && of.Type.ID() != arrow.INT64:
		b.fault(at, "", "%d is a count, but %s is of type %s: write a duration such as 1d", given.Count, of.Name, of.Type)
	case out == 0 && !p.Exact:
		b.fault(at, "", "%s is less than a unit of %s, of type %s, and exact is false: no staging row could match", cmp.Or(given.String(), "0s"), of.Name, of.Type)
	}
	return out
}

// timeUnit returns the unit of a time column's values; for a long, which has no unit, it returns 1.
// It returns false if the type is not a time.
func timeUnit(t arrow.DataType) (time.Duration, bool) {
	switch t := t.(type) {
	case *arrow.Date32Type:
		return hoursPerDay * time.Hour, true
	case *arrow.TimestampType:
		return t.Unit.Multiplier(), true
	case *arrow.Int64Type:
		return 1, true
	default:
		return 1, false
	}
}

// reach returns the tolerance in the units of expr.Value, rounded up.
func (t *Time) reach() int64 {
	if nanoseconds(t.Training.Type) {
		return t.Tolerance/int64(time.Microsecond) + 1
	}
	return t.Tolerance
}
