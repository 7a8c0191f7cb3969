package resolve

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// aligned finds, for each training partition, the one staging partition in which its rows may have
// matches. A staging partition is identified by its value: an ordinal of the unit, a whole number
// or a string.
type aligned struct {
	rule     dataset.Align
	at       string // the field of the dataset, for errors
	training *catalog.Table
	staging  *catalog.Table
	from     int           // id of the column from which training partitions are derived; 0: no training partition was seen yet
	unit     unit          // the unit of all staging files; noUnit if there are no files
	parts    map[any]int32 // the number of each partition that exists
	sorted   []any         // the values of parts, ascending
}

// newAligned collects the existing staging partitions. They include the partitions of files that a
// filter drops.
func newAligned(rule dataset.Align, at string, training, staging *catalog.Table, files []catalog.File) (*aligned, error) {
	a := &aligned{rule: rule, at: at, training: training, staging: staging, parts: map[any]int32{}}
	from := 0
	for _, f := range files {
		p, err := alignField(staging, rule.Staging, f)
		if err == nil {
			err = oneColumn(staging, rule.Staging, &from, p, f)
		}
		if err != nil {
			return nil, err
		}
		if a.unit != noUnit && a.unit != p.unit {
			return nil, a.refuse("staging", "files of %s are partitioned by %s and by %s", staging.Name, a.unit, p.unit).In(staging.Name, f.Location).
				WithRemedy("rewrite the older files of %s with its current partition spec", staging.Name)
		}
		a.unit = p.unit
		if _, ok := a.parts[p.value]; p.value != nil && !ok {
			a.parts[p.value] = int32(len(a.parts))
			a.sorted = append(a.sorted, p.value)
		}
	}
	slices.SortFunc(a.sorted, comparePart)
	return a, nil
}

// partOf is the value of a file's partition in the field by which partitions are aligned.
type partOf struct {
	value any // nil: null
	unit  unit
	from  int // id of the column from which the field is derived
}

// alignField returns the partition of a file in the partition field with a name. The name of a
// column refers only to fields of that column: to the field with the same name, or else to the
// field with the finest unit. Any other name is the name of a field.
func alignField(t *catalog.Table, name string, f catalog.File) (partOf, error) {
	named, isColumn := t.Field(name)
	best, found := partOf{}, false
	for i, p := range t.Specs[f.Spec] {
		column, ok := t.ByID(p.Source)
		if !ok || isColumn && column.ID != named.ID || !isColumn && p.Name != name {
			continue
		}
		u := unitOf(p, column.Type)
		if p.Name == name && u != noUnit {
			return partOf{partValue(f.Partition[i]), u, column.ID}, nil
		}
		if u > best.unit {
			best, found = partOf{partValue(f.Partition[i]), u, column.ID}, true
		}
	}
	if !found {
		return partOf{}, fault.New(fault.Invalid, "partitions of %s cannot be aligned by %s: one of its files is not partitioned by it", t.Name, name).
			In(t.Name, f.Location).
			WithRemedy("align by a partition field (identity, year, month, day or hour) that every file has; "+
				"ALTER TABLE %s ADD PARTITION FIELD %s, then CALL system.rewrite_data_files(table => '%s')", t.Name, name, t.Name)
	}
	return best, nil
}

// partValue returns a partition's value in its comparable form.
func partValue(value any) any {
	switch value.(type) {
	case int64, string:
		return value
	default:
		return nil
	}
}

// oneColumn returns an error if a field is derived from different columns in different files. This
// is possible, since specs can reuse the name of a dropped field. from is the column of earlier
// files, or 0 if there were none.
func oneColumn(t *catalog.Table, name string, from *int, p partOf, f catalog.File) error {
	if *from != 0 && *from != p.from {
		before, _ := t.ByID(*from)
		now, _ := t.ByID(p.from)
		return fault.New(fault.Invalid, "partitions of %s cannot be aligned by %s: in some files it is derived from column %s, in others from column %s",
			t.Name, name, before.Name, now.Name).In(t.Name, f.Location).
			WithRemedy("rewrite the older files of %s with its current partition spec", t.Name)
	}
	*from = p.from
	return nil
}

// comparePart orders partition values of one unit.
func comparePart(a, b any) int {
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			return compare(x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			return compare(x, y)
		}
	}
	return 0
}

func compare[T int64 | string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// partOfStaging returns the number of a staging file's partition, or false if the partition's value
// is null.
func (a *aligned) partOfStaging(f catalog.File) (int32, bool) {
	p, _ := alignField(a.staging, a.rule.Staging, f) // newAligned has checked the error
	n, ok := a.parts[p.value]
	return n, ok
}

// noPart means that no staging partition is aligned with a training partition.
const noPart = -1

// partFor returns the number of the staging partition that is aligned with the partition of a
// training file, or noPart if there is none.
func (a *aligned) partFor(f catalog.File) (int32, error) {
	p, err := alignField(a.training, a.rule.Training, f)
	if err == nil {
		err = oneColumn(a.training, a.rule.Training, &a.from, p, f)
	}
	if err != nil || p.value == nil || a.unit == noUnit {
		return noPart, err
	}
	value, u := p.value, p.unit
	if err := a.check(u); err != nil {
		return noPart, err.In(a.training.Name, f.Location)
	}
	var want any
	switch {
	case a.rule.Rule.IsSame():
		want = a.same(value, u)
	case a.rule.Rule.IsLag():
		want = a.before(value, u)
	case a.rule.Rule.IsLatest():
		want = a.latest(value, u)
	}
	if n, ok := a.parts[want]; ok && want != nil {
		return n, nil
	}
	return noPart, nil
}

// words describes, for explain texts, which staging partition is aligned with a training partition.
func (a *aligned) words() string {
	distance := ""
	if a.rule.Lag != (dataset.Lag{}) {
		distance = ", by at least " + a.rule.Lag.String()
	}
	switch {
	case a.rule.Rule.IsLag():
		return "the " + a.unit.String() + " " + a.rule.Lag.String() + " before it"
	case a.rule.Rule.IsLatest():
		return "the latest " + a.unit.String() + " before it" + distance
	case a.unit.temporal():
		return "the " + a.unit.String() + " that contains it"
	default:
		return "the same " + a.unit.String()
	}
}

func (a *aligned) refuse(field, format string, args ...any) *fault.Error {
	return fault.InvalidField(a.at+"."+field, "%s", fmt.Sprintf(format, args...))
}

// check refuses rules that are wrong for all partition values.
func (a *aligned) check(training unit) *fault.Error {
	lag := a.rule.Lag
	switch {
	case training.temporal() != a.unit.temporal(), !a.unit.temporal() && training != a.unit:
		return a.refuse("staging", "partitions by %s cannot be aligned with partitions by %s", training, a.unit)
	case a.rule.Rule.IsSame() && a.unit > training:
		return a.refuse("rule", "%s is partitioned by %s, finer than %s by %s: no single partition is the same",
			a.staging.Name, a.unit, a.training.Name, training).WithRemedy("use rule latest_before, or a lag of whole %ss", a.unit)
	case a.rule.Rule.IsSame():
		return nil
	case a.unit.temporal() && lag.Count != 0:
		return a.refuse("lag", "%d is a count, but partitions are spans of time: write a duration such as 1d", lag.Count)
	case !a.unit.temporal() && (lag.Months != 0 || lag.Time != 0):
		return a.refuse("lag", "%s is a duration, but partitions are not spans of time: write a count such as 1", lag)
	case lag.Count < 0 || lag.Months < 0 || lag.Time < 0:
		return a.refuse("lag", "a lag of %s leaks future data", lag)
	case a.unit == textUnit && lag.Count != 0, a.unit == textUnit && a.rule.Rule.IsLag():
		return a.refuse("rule", "strings have no distance: use rule same, or latest_before without a lag")
	case a.rule.Rule.IsLag() && lag == (dataset.Lag{}):
		return a.refuse("lag", "a lag of zero leaks future data: a staging partition has rows from after the start of its training partition").
			WithRemedy("use a lag of at least one %s", a.unit)
	case a.rule.Rule.IsLag() && a.unit.temporal() && a.steps() == 0:
		return a.refuse("lag", "a lag of %s is not a whole number of %ss, by which %s is partitioned", lag, a.unit, a.staging.Name).
			WithRemedy("write a lag of whole %ss", a.unit)
	}
	return nil
}

// steps returns the lag as a number of staging partitions, or 0 if it is not a whole number of
// them.
func (a *aligned) steps() int64 {
	lag := a.rule.Lag
	switch length := a.unit.length(); {
	case a.unit == yearUnit && lag.Time == 0 && lag.Months%monthsPerYear == 0:
		return int64(lag.Months / monthsPerYear)
	case a.unit == monthUnit && lag.Time == 0:
		return int64(lag.Months)
	case length > 0 && lag.Months == 0 && lag.Time%length == 0:
		return int64(lag.Time / length)
	default:
		return 0
	}
}

// same returns the staging partition that contains a training partition.
func (a *aligned) same(value any, u unit) any {
	ordinal, ok := value.(int64)
	if !ok || !a.unit.temporal() {
		return value
	}
	return a.unit.at(u.start(ordinal))
}

// before returns the staging partition that contains a certain time: one lag before the start of a
// training partition. Since the lag is a whole number of staging partitions, the result ends at or
// before the start of the training partition.
func (a *aligned) before(value any, u unit) any {
	ordinal, _ := value.(int64)
	if a.unit == wholeUnit {
		if ordinal < math.MinInt64+a.rule.Lag.Count {
			return nil
		}
		return ordinal - a.rule.Lag.Count
	}
	return a.unit.at(u.start(ordinal)) - a.steps()
}

// latest returns the last staging partition that ends at least one lag before a training partition
// starts, or nil if there is none.
func (a *aligned) latest(value any, u unit) any {
	fits := func(part any) bool { return comparePart(part, value) < 0 }
	ordinal, _ := value.(int64)
	switch {
	case a.unit.temporal():
		limit := earlier(u.start(ordinal), a.rule.Lag)
		fits = func(part any) bool {
			n, _ := part.(int64)
			return !a.unit.start(n + 1).After(limit)
		}
	case a.unit == wholeUnit:
		fits = func(part any) bool {
			n, _ := part.(int64)
			return n < ordinal && uint64(ordinal)-uint64(n) >= uint64(a.rule.Lag.Count)
		}
	}
	// fits is true for the first partitions, and false for all following partitions.
	low, high := 0, len(a.sorted)
	for low < high {
		middle := (low + high) / 2
		if fits(a.sorted[middle]) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == 0 {
		return nil
	}
	return a.sorted[low-1]
}

// earlier returns the time that is one lag before t. One month before March 31 is the last day of
// February.
func earlier(t time.Time, lag dataset.Lag) time.Time {
	if lag.Months > 0 {
		first := time.Date(t.Year(), t.Month()-time.Month(lag.Months), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		last := first.AddDate(0, 1, -1).Day()
		t = first.AddDate(0, 0, min(t.Day(), last)-1)
	}
	return t.Add(-lag.Time)
}
