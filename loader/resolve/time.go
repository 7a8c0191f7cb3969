package resolve

import (
	"cmp"
	"fmt"
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
	case p.Zone.Known() && t.Type.ID() != arrow.TIMESTAMP:
		b.fault(at+".zone", "", "column %s.%s of type %s has no time zone: leave zone out", training.Name, t.Name, t.Type)
	case !arrow.TypeEqual(t.Type, s.Type) && !(p.Zone.Known() && differInZone(t.Type, s.Type)):
		b.fault(at+".staging", "", "%s.%s is %s and %s.%s is %s: times of these types cannot be compared%s",
			training.Name, t.Name, t.Type, staging.Name, s.Name, s.Type, rewriteOf(training, t, staging, s))
	default:
		return &Time{Training: t, Staging: s, Tolerance: b.tolerance(p, t, unit, at+".tolerance"), Exact: p.Exact, Zone: p.Zone}
	}
	return nil
}

// differInZone reports whether two types are timestamps of one unit, one with a time zone and one without.
func differInZone(a, b arrow.DataType) bool {
	x, ok := a.(*arrow.TimestampType)
	y, is := b.(*arrow.TimestampType)
	return ok && is && x.Unit == y.Unit && (x.TimeZone == "") != (y.TimeZone == "")
}

// rewriteOf returns the end of a sentence that says how the times s of a staging table can be
// compared with the times t of a training table. It returns "" if s or t is not a time.
func rewriteOf(training *catalog.Table, t catalog.Field, staging *catalog.Table, s catalog.Field) string {
	const set = "; set zone: UTC if the times of %s.%s, which have no zone, are in UTC"
	_, ok := timeUnit(s.Type)
	switch to, zoned := t.Type.(*arrow.TimestampType); {
	case !ok || t.Type.ID() == arrow.INT64 || s.Type.ID() == arrow.INT64:
		return ""
	case differInZone(t.Type, s.Type) && to.TimeZone != "":
		return fmt.Sprintf(set, staging.Name, s.Name)
	case differInZone(t.Type, s.Type):
		return fmt.Sprintf(set, training.Name, t.Name)
	case zoned && s.Type.ID() == arrow.DATE32:
		return "; write those of the staging table as timestamps, since a date does not say when on that day the row was known"
	case zoned && to.TimeZone != "":
		return "; write those of the staging table as timestamptz in the same unit"
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
