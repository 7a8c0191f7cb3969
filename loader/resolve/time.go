package resolve

import (
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
		b.fault(at+".training", "", "column %s.%s of type %s is no time: use a date, a timestamp or a long", training.Name, t.Name, t.Type)
	case !arrow.TypeEqual(t.Type, s.Type):
		b.fault(at+".staging", "", "%s.%s is %s and %s.%s is %s: times of these types do not compare",
			training.Name, t.Name, t.Type, staging.Name, s.Name, s.Type)
	case p.Tolerance < 0:
		b.fault(at+".tolerance", "", "the tolerance is negative")
	}
	return &Time{Training: t, Staging: s, Tolerance: int64(p.Tolerance / max(1, unit)), Exact: p.Exact}
}

// timeUnit returns the unit of a time column's values; of a long it is 1, as
// tolerances of longs count their units. False is a type that is no time.
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

// reach is the tolerance in the units of expr.Value, rounded up.
func (t *Time) reach() int64 {
	if nanoseconds(t.Training.Type) {
		return t.Tolerance/int64(time.Microsecond) + 1
	}
	return t.Tolerance
}
