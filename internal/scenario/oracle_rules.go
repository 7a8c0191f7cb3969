package scenario

import (
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// matches returns the staging rows of an entry that match a training row, in the order
// by which duplicates are resolved.
func (o *oracle) matches(i int, row fileRow) []cells {
	entry := o.Dataset.Staging[i]
	var found []cells
	for _, candidate := range o.staging[i] {
		if !equalKeys(entry.Key, row.cells, candidate.cells) {
			continue
		}
		if entry.Align != nil && !o.aligned(i, row, candidate) {
			o.Seen["kept apart by align"]++
			continue
		}
		if entry.PointInTime != nil && !inTime(*entry.PointInTime, row.cells, candidate.cells, cell.UnitOf(o.types[entry.PointInTime.Training])) {
			o.Seen["kept apart by time"]++
			continue
		}
		found = append(found, candidate.cells)
	}
	if entry.PointInTime != nil {
		found = latest(found, entry.PointInTime.Staging)
	}
	slices.SortStableFunc(found, func(a, b cells) int { return byOrder(entry.OrderBy, a, b) })
	return found
}

func equalKeys(key []dataset.KeyPair, training, staging cells) bool {
	for _, k := range key {
		if training[k.Training] == nil || training[k.Training] != staging[k.Staging] {
			return false
		}
	}
	return true
}

// byOrder compares rows by columns. Nulls are last in both directions.
func byOrder(order []dataset.OrderBy, a, b cells) int {
	for _, by := range order {
		x, y := a[by.Column], b[by.Column]
		switch {
		case x == nil && y == nil:
			continue
		case x == nil:
			return 1
		case y == nil:
			return -1
		}
		c := cell.Compare(x, y)
		if by.Descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// inTime reports whether a staging row is before a training row (or at the same time, if
// Exact is set), by no more than the tolerance. For numeric times the tolerance is in
// their units.
func inTime(rule dataset.PointInTime, training, staging cells, unit *big.Rat) bool {
	at, ok := training[rule.Training].(int64)
	was, known := staging[rule.Staging].(int64)
	if !ok || !known {
		return false
	}
	age := new(big.Rat).Sub(new(big.Rat).SetInt64(at), new(big.Rat).SetInt64(was)) // an age of any size
	age.Mul(age, unit)
	maxAge := int64(rule.Tolerance.Time) + rule.Tolerance.Count // one of them is 0
	return (age.Sign() > 0 || age.Sign() == 0 && rule.Exact) && age.Cmp(new(big.Rat).SetInt64(maxAge)) <= 0
}

// latest keeps the rows with the latest time.
func latest(rows []cells, column string) []cells {
	var last int64
	for i, row := range rows {
		if t := row[column].(int64); i == 0 || t > last {
			last = t
		}
	}
	return slices.DeleteFunc(rows, func(row cells) bool { return row[column].(int64) != last })
}

// distinct keeps the first or last of the rows with equal values, in each partition or
// overall.
func (o *oracle) distinct(rows []fileRow) []fileRow {
	d := o.Dataset.Training.Distinct
	if d == nil {
		return rows
	}
	agree := func(a, b fileRow) bool {
		if d.Scope == dataset.ScopePartition && !samePartition(a.file, b.file) {
			return false
		}
		return !slices.ContainsFunc(d.By, func(name string) bool { return a.cells[name] != b.cells[name] })
	}
	var kept []fileRow
	for i, row := range rows {
		beaten := false
		for k, other := range rows {
			if i == k || !agree(row, other) {
				continue
			}
			c := byOrder(d.OrderBy, other.cells, row.cells)
			before := c < 0 || c == 0 && k < i
			beaten = beaten || before == (d.Keep != dataset.KeepLast)
		}
		if beaten {
			o.Seen["dropped by distinct"]++
			continue
		}
		kept = append(kept, row)
	}
	return kept
}

func samePartition(a, b *stored) bool {
	return slices.Equal(a.partition, b.partition) && slices.Equal(a.spec, b.spec)
}

// sampled reports whether a training row is in the sample. It supports only samples by
// one column.
func (o *oracle) sampled(row cell.Row) bool {
	s := o.Query.Sample
	if s == nil {
		return true
	}
	if s.Rate < smallRate && o.where.Passes(row) {
		o.Seen["dropped by a rate"]++
		return false
	}
	if s.Hash == nil {
		return true
	}
	column := o.Dataset.Key[0]
	hash := uint32(0)
	if v := row.Cells[column]; v != nil {
		hash = cell.Hash(row.Types[column], v)
	}
	position := float64(bits.Reverse32(hash&0x7fffffff)>>1) / (1 << 31)
	from, to := s.Hash.From, s.Hash.To
	in := from <= position && position < to
	if from > to {
		in = position >= from || position < to
	}
	if !in {
		o.Seen["dropped by a sample"]++
	}
	return in
}

// aligned reports whether a staging row is in the partition that an entry's align maps
// the training row's partition to.
func (o *oracle) aligned(i int, row, candidate fileRow) bool {
	align := o.Dataset.Staging[i].Align
	training, ok := o.span(row.file, align.Training)
	staging, known := o.span(candidate.file, align.Staging)
	if !ok || !known {
		return false
	}
	target := training.before(align.Lag)
	switch align.Rule {
	case dataset.AlignSame:
		return training.from == staging.from
	case dataset.AlignLag:
		return staging.from <= target && target < staging.to
	}
	if !training.time { // integers: before by at least the lag, and by at least one
		target = min(target, training.from-1) + 1
	}
	last := staging
	for k := range o.files[i] {
		other, ok := o.span(&o.files[i][k], align.Staging)
		if ok && other.to <= target && other.from > last.from {
			last = other
		}
	}
	return staging.to <= target && staging.from == last.from
}

// span is the range [from, to) of the values of a partition: in microseconds, or as integers if the
// partition is not by time.
type span struct {
	from, to int64
	time     bool
}

// before returns the start of a span, minus a lag.
func (s span) before(lag dataset.Lag) int64 {
	if !s.time {
		return s.from - lag.Count
	}
	return time.UnixMicro(s.from).UTC().AddDate(0, -lag.Months, 0).Add(-lag.Time).UnixMicro()
}

// span is like spanOf, but caches the result.
func (o *oracle) span(file *stored, column string) (span, bool) {
	if _, ok := o.spans[file]; !ok {
		o.spans[file] = map[string]*span{}
	}
	found, ok := o.spans[file][column]
	if !ok {
		if s, known := spanOf(file, column); known {
			found = &s
		}
		o.spans[file][column] = found
	}
	if found == nil {
		return span{}, false
	}
	return *found, true
}

// spanOf returns the span of a file's partition for a column. It returns false if the partition
// value is null, or if the file is not partitioned by the column.
func spanOf(file *stored, column string) (span, bool) {
	for k, f := range file.spec {
		if f.Transform.Kind == catalog.Bucket || file.sources[k].Name != column {
			continue
		}
		v, ok := file.partition[k].(int64)
		if !ok {
			return span{}, false
		}
		begin := time.Unix(0, 0).UTC()
		switch f.Transform.Kind {
		case catalog.Year:
			return timeSpan(begin.AddDate(int(v), 0, 0), begin.AddDate(int(v)+1, 0, 0)), true
		case catalog.Month:
			return timeSpan(begin.AddDate(0, int(v), 0), begin.AddDate(0, int(v)+1, 0)), true
		case catalog.Hour:
			return timeSpan(begin.Add(time.Duration(v)*time.Hour), begin.Add(time.Duration(v+1)*time.Hour)), true
		case catalog.Day:
			return timeSpan(begin.AddDate(0, 0, int(v)), begin.AddDate(0, 0, int(v)+1)), true
		}
		if file.sources[k].Type.ID() == arrow.DATE32 {
			return timeSpan(begin.AddDate(0, 0, int(v)), begin.AddDate(0, 0, int(v)+1)), true
		}
		return span{from: v, to: v + 1}, true
	}
	return span{}, false
}

func timeSpan(from, to time.Time) span {
	return span{from: from.UnixMicro(), to: to.UnixMicro(), time: true}
}

// smallRate is an upper bound of the rates that keep no row of any test table.
const smallRate = 1e-9

// filter parses a filter. It sets Unbound and Fails if the product must refuse the filter.
func (o *oracle) filter(given dataset.Filter) *cell.Filter {
	t, err := cell.ParseFilter(given.String())
	if err != nil {
		o.Fails = err.Error()
	}
	for _, name := range t.Columns() {
		if strings.Contains(name, ".") {
			o.Unbound = "a filter names " + name + ", a field of a struct"
			o.Fails = o.Unbound
			o.Seen["a filter on a field of a struct"]++
		}
	}
	return t
}

func passAll(filters []*cell.Filter, row cell.Row) bool {
	return !slices.ContainsFunc(filters, func(t *cell.Filter) bool { return !t.Passes(row) })
}

// divide splits the query's filter. Conjuncts that name columns of entries, including overlaid
// columns, apply after the joins; the other conjuncts apply before.
func (o *oracle) divide() {
	var late []string
	for i, entry := range o.Dataset.Staging {
		for _, column := range o.shown(i) {
			late = append(late, column.Output())
		}
		if entry.MatchedAs != "" {
			late = append(late, entry.MatchedAs)
		}
	}
	for _, conjunct := range o.filter(o.Query.Filter).Conjuncts() {
		if slices.ContainsFunc(conjunct.Columns(), func(name string) bool { return slices.Contains(late, name) }) {
			o.after = append(o.after, conjunct)
		} else {
			o.before = append(o.before, conjunct)
		}
	}
	if s := o.Query.Sample; s != nil {
		o.where = o.filter(s.Where)
	}
}
