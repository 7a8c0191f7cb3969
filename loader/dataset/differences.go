package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
)

// Differences lists the differences between the plans of two cursors. Each text has the value of a
// before that of b, such as "seed (7, not 8)" or "pin.staging.history snapshot (12, not 15)".
// Shard, step and positions are not part of the plan. It returns nil if the plans are equal.
func Differences(a, b Cursor) []string {
	var found []string
	for _, d := range differences(a, b) {
		found = append(found, d.String())
	}
	return found
}

func differences(a, b Cursor) (l fieldDifferences) {
	l.add("algorithm", strconv.Itoa(a.Algorithm), strconv.Itoa(b.Algorithm))
	l = append(l, RowsDifferences(a.Rows, b.Rows)...)
	l.table("pin.training", a.Pin.Training, b.Pin.Training)
	both := maps.Clone(a.Pin.Staging)
	if both == nil {
		both = map[string]TablePin{}
	}
	maps.Copy(both, b.Pin.Staging)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		before, in := a.Pin.Staging[name]
		after, out := b.Pin.Staging[name]
		path := fault.FieldPath("pin.staging", name)
		switch {
		case !in:
			l = append(l, FieldDifference{path, none, after.UUID})
		case !out:
			l = append(l, FieldDifference{path, cmp.Or(before.UUID, snapshot(before.Snapshot)), none})
		default:
			l.table(path, before, after)
		}
	}
	return l
}

// PinDifferences lists the contradictions between the pin of a query, which may leave tables out,
// and a whole pin. Each text has the query's value first. It returns nil if the pins agree.
func PinDifferences(given, whole Pin) []string {
	filled := Pin{Training: given.Training.filled(whole.Training), Staging: maps.Clone(whole.Staging)}
	for name, s := range given.Staging {
		if one, ok := whole.Staging[name]; ok {
			filled.Staging[name] = s.filled(one)
		}
	}
	return Differences(Cursor{Rows: Rows{Pin: filled}}, Cursor{Rows: Rows{Pin: whole}})
}

// filled returns the pin with missing fields taken from a whole pin.
func (p TablePin) filled(whole TablePin) TablePin {
	if p.Whole() {
		return p
	}
	whole.Snapshot = cmp.Or(p.Snapshot, whole.Snapshot)
	return whole
}

// none is the text of a field that is not set.
const none = "none"

// FieldDifference is a field that differs between two values. A and B are the field's texts in the
// two values, shortened to parts that differ.
type FieldDifference struct {
	Field string
	A, B  string
}

// String returns a text such as "seed (7, not 8)".
func (d FieldDifference) String() string { return fmt.Sprintf("%s (%s, not %s)", d.Field, d.A, d.B) }

// RowsDifferences returns the fields in which two plans' rows differ, except for the pin.
func RowsDifferences(a, b Rows) []FieldDifference {
	var l fieldDifferences
	l.add("dataset", a.Dataset, b.Dataset)
	a.Sample, b.Sample = a.Sample.Normal(), b.Sample.Normal()
	for _, f := range RowsFields() {
		l.add(f.Name, f.text(&a), f.text(&b))
	}
	l.add("batches of", a.unit(), b.unit())
	return l
}

type fieldDifferences []FieldDifference

func (l *fieldDifferences) add(field, a, b string) {
	if a == b {
		return
	}
	a, b = apart(cmp.Or(a, none), cmp.Or(b, none))
	*l = append(*l, FieldDifference{field, a, b})
}

// apart shortens two different texts in such a way that the results still differ.
func apart(a, b string) (string, string) {
	const maxLen, before = 80, 20
	if fault.Shorten(a, maxLen) == fault.Shorten(b, maxLen) {
		from := 0
		for from < min(len(a), len(b)) && a[from] == b[from] {
			from++
		}
		for from = max(0, from-before); from > 0 && !utf8.RuneStart(a[from]); {
			from--
		}
		a, b = "…"+a[from:], "…"+b[from:]
	}
	return fault.Shorten(a, maxLen), fault.Shorten(b, maxLen)
}

// table adds the differences between two pins of a table. If the tables differ, other
// fields are not compared.
func (l *fieldDifferences) table(path string, a, b TablePin) {
	if a.UUID != b.UUID {
		l.add(path+" table", a.UUID, b.UUID)
		return
	}
	l.add(path+" snapshot", snapshot(a.Snapshot), snapshot(b.Snapshot))
	l.add(path+" schema", strconv.Itoa(a.Schema), strconv.Itoa(b.Schema))
	l.add(path+" mapping", a.Mapping, b.Mapping)
}

func snapshot(id int64) string {
	if id == NoSnapshot {
		return none
	}
	return strconv.FormatInt(id, 10)
}
