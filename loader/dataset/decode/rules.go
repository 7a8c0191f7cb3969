package decode

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// readDistinct decodes the rule that drops repeated training rows.
func readDistinct(d *decoder, at place) *dataset.Distinct {
	var out dataset.Distinct
	object(d, at, &out, []field[dataset.Distinct]{
		{name: "by", must: true, read: func(d *decoder, at place, out *dataset.Distinct) { out.By = d.key(at) }},
		{name: "keep", read: func(d *decoder, at place, out *dataset.Distinct) {
			out.Keep = choice(d, at, []dataset.Keep{dataset.KeepFirst, dataset.KeepLast})
		}},
		{name: "order_by", read: func(d *decoder, at place, out *dataset.Distinct) { out.OrderBy = readOrderBy(d, at) }},
		{name: "scope", read: func(d *decoder, at place, out *dataset.Distinct) {
			if out.Scope = choice(d, at, []dataset.Scope{tableScope, dataset.ScopePartition}); out.Scope == tableScope {
				out.Scope = dataset.ScopeTable
			}
		}},
	})
	return &out
}

// tableScope is the text of ScopeTable, the default.
const tableScope dataset.Scope = "table"

// readOrderBy decodes the order of the rows of one key: a list, or a single entry.
func readOrderBy(d *decoder, at place) []dataset.OrderBy {
	if at.kind == kindText {
		return []dataset.OrderBy{readOrder(d, at)}
	}
	out := list(d, at, maxKeys, readOrder)
	if at.kind == kindList && len(out) == 0 {
		d.fail(at.path, "must name at least one column; leave the field out for the order of files")
	}
	for i, o := range out {
		first := slices.IndexFunc(out, func(p dataset.OrderBy) bool { return p.Column == o.Column })
		if first < i && o.Column != "" {
			d.fail(at.path+indexed(i), "%q is listed twice", o.Column)
		}
	}
	return out
}

// The directions of an order.
const (
	ascending  = "asc"
	descending = "desc"
)

// readOrder decodes a column, "column desc", or {column, order}.
func readOrder(d *decoder, at place) dataset.OrderBy {
	if at.kind == kindText {
		out := dataset.ParseOrderBy(d.short(at, maxName+len(" "+descending)))
		if meant, name := misdirected(out.Column); meant != "" {
			d.fail(at.path, "%q looks like a column with a direction; write %q, or {column: %q} if that is its name", fault.Shorten(out.Column, 40), name+" "+meant, out.Column)
		}
		if len(out.Column) > maxName {
			d.fail(at.path, "has %d bytes, the limit is %d", len(out.Column), maxName)
		}
		return out
	}
	if at.kind != kindObject {
		d.fail(at.path, `must be a column such as "updated_at" or "updated_at desc", or {column, order}, not %s`, at.kind)
		return dataset.OrderBy{}
	}
	var out dataset.OrderBy
	object(d, at, &out, []field[dataset.OrderBy]{
		{name: "column", must: true, read: func(d *decoder, at place, out *dataset.OrderBy) { out.Column = d.name(at) }},
		{name: "order", read: func(d *decoder, at place, out *dataset.OrderBy) {
			out.Descending = choice(d, at, []string{ascending, descending}) == descending
		}},
	})
	return out
}

// misdirected recognizes a direction in another notation, such as "-a" or "a descending". It
// returns the direction and the name without it, or "" for both if the text has no such direction.
func misdirected(text string) (direction, name string) {
	lower := strings.ToLower(text)
	for long, short := range map[string]string{" descending": descending, " ascending": ascending} {
		if strings.HasSuffix(lower, long) {
			return short, text[:len(text)-len(long)]
		}
	}
	if name, ok := strings.CutPrefix(text, "-"); ok {
		return descending, name
	}
	return "", ""
}

// readMissing decodes the rule for keys without a staging row. A null in YAML or JSON means the
// same as the word null: object treats it as omitted, and null is the default.
func readMissing(d *decoder, at place) (rule.Missing, []dataset.Default) {
	switch {
	case at.kind == kindText && at.text == rule.MissingDefault.String():
		d.fail(at.path, "has no values; write {default: {column: value}}")
		return rule.MissingNull, nil
	case at.kind == kindWhole || at.kind == kindNumber || at.kind == kindBool:
		d.fail(at.path, "has no column; write {default: {column: %s}}", fault.Shorten(at.text, 40))
		return rule.MissingNull, nil
	case at.kind != kindObject:
		return word(d, at, []rule.Missing{rule.MissingNull, rule.MissingError}), nil
	}
	var out []dataset.Default
	object(d, at, &out, []field[[]dataset.Default]{
		{name: "default", must: true, read: func(d *decoder, at place, out *[]dataset.Default) { *out = readDefaults(d, at) }},
	})
	return rule.MissingDefault, out
}

// readDefaults decodes an object from output columns to values. The result is sorted by
// column.
func readDefaults(d *decoder, at place) []dataset.Default {
	if at.kind != kindObject {
		d.fail(at.path, "must be an object that maps columns to values, not %s", at.kind)
		return nil
	}
	if len(at.members) == 0 || len(at.members) > maxColumns {
		d.fail(at.path, "must have 1 to %d columns, not %d", maxColumns, len(at.members))
		return nil
	}
	var out []dataset.Default
	for _, m := range at.members {
		p := at.member(m)
		if m.name == "" || len(m.name) > maxName || strings.ContainsFunc(m.name, isControl) {
			d.fail(p.path, "a column's name has 1 to %d bytes and no control characters", maxName)
		}
		out = append(out, dataset.Default{Column: m.name, Value: readValue(d, p)})
	}
	slices.SortFunc(out, func(a, b dataset.Default) int { return strings.Compare(a.Column, b.Column) })
	return out
}

// readValue decodes null, true, false, a number or text.
func readValue(d *decoder, at place) any {
	switch at.kind {
	case kindNull:
		return nil
	case kindBool:
		return at.text == strconv.FormatBool(true)
	case kindWhole:
		return d.whole(at, minInt64, maxInt64)
	case kindNumber:
		return d.number(at, -math.MaxFloat64, math.MaxFloat64)
	case kindText:
		return at.text
	case kindTime:
		d.fail(at.path, "is a YAML date; put it in quotes")
	case kindList, kindObject:
		d.fail(at.path, "must be null, true or false, a number or text, not %s", at.kind)
	}
	return nil
}

// number decodes a number from minimum to maximum.
func (d *decoder) number(at place, minimum, maximum float64) float64 {
	if at.kind != kindWhole && at.kind != kindNumber {
		d.fail(at.path, "must be a number, not %s", at.kind)
		return 0
	}
	v, err := strconv.ParseFloat(at.text, 64)
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		d.fail(at.path, "%s is not a finite 64-bit number", fault.Shorten(at.text, 40))
	case v < minimum:
		d.fail(at.path, "must be at least %v, not %v", minimum, v)
	case v > maximum:
		percent := ""
		if maximum == 1 && v >= 2 && v <= 100 {
			percent = fmt.Sprintf("; %v %% is %v", v, v/100)
		}
		d.fail(at.path, "must be at most %v, not %v%s", maximum, v, percent)
	}
	return v
}

// truth decodes true or false.
func (d *decoder) truth(at place) bool {
	if at.kind != kindBool {
		d.fail(at.path, "must be true or false, not %s", at.kind)
	}
	return at.text == strconv.FormatBool(true)
}

// timeFields are the fields that select staging rows by time.
func timeFields() []field[dataset.Staging] {
	return []field[dataset.Staging]{
		{name: "align", read: func(d *decoder, at place, out *dataset.Staging) { out.Align = readAlign(d, at) }},
		{name: "point_in_time", read: func(d *decoder, at place, out *dataset.Staging) { out.PointInTime = readPointInTime(d, at) }},
	}
}

func readAlign(d *decoder, at place) *dataset.Align {
	var out dataset.Align
	object(d, at, &out, []field[dataset.Align]{
		{name: "training", must: true, read: func(d *decoder, at place, out *dataset.Align) { out.Training = d.name(at) }},
		{name: "staging", read: func(d *decoder, at place, out *dataset.Align) { out.Staging = d.name(at) }},
		{name: "rule", read: func(d *decoder, at place, out *dataset.Align) {
			out.Rule = choice(d, at, []dataset.AlignRule{dataset.AlignSame, dataset.AlignLag, dataset.AlignLatestBefore})
		}},
		{name: "lag", read: func(d *decoder, at place, out *dataset.Align) { out.Lag = readLag(d, at) }},
	})
	if path := at.pathOf("lag"); at.kind == kindObject && d.sound(path, at.pathOf("rule")) {
		given := at.has("lag")
		switch {
		case out.Rule.IsLag() && !given:
			d.fail(path, "missing; rule: lag requires a distance, such as 1d")
		case out.Rule.IsSame() && given:
			d.fail(path, "rule: same has no lag; leave it out, or use rule: lag")
		case !out.Rule.IsLatest() && given && out.Lag == (dataset.Lag{}):
			d.fail(path, "must be greater than zero; leave it out for the same partition")
		}
	}
	return &out
}

func readPointInTime(d *decoder, at place) *dataset.PointInTime {
	out := dataset.PointInTime{Exact: true}
	object(d, at, &out, []field[dataset.PointInTime]{
		{name: "training", must: true, read: func(d *decoder, at place, out *dataset.PointInTime) { out.Training = d.name(at) }},
		{name: "staging", read: func(d *decoder, at place, out *dataset.PointInTime) { out.Staging = d.name(at) }},
		{name: "tolerance", read: func(d *decoder, at place, out *dataset.PointInTime) { out.Tolerance = readTolerance(d, at) }},
		{name: "exact", read: func(d *decoder, at place, out *dataset.PointInTime) { out.Exact = d.truth(at) }},
		{name: "zone", read: func(d *decoder, at place, out *dataset.PointInTime) {
			out.Zone = choice(d, at, []dataset.Zone{dataset.ZoneUTC})
		}},
	})
	path := at.pathOf("tolerance")
	switch {
	case at.kind != kindObject || !d.sound(path):
	case at.has("tolerance") && out.Tolerance == (dataset.Lag{}) && !out.Exact:
		d.fail(path, "must be greater than zero if exact is false: no staging row could match")
	case !at.has("tolerance"):
		d.fail(path, "missing; set the maximum age of a staging row, such as 24h, or a number for long columns")
	}
	return &out
}

// effortFields are the fields that change the cost of reading but not the rows.
func effortFields() []field[dataset.Staging] {
	return []field[dataset.Staging]{
		{name: "strategy", read: func(d *decoder, at place, out *dataset.Staging) { out.Strategy, out.Custom = readStrategy(d, at) }},
		{name: "max_amplification", read: func(d *decoder, at place, out *dataset.Staging) {
			out.MaxAmplification = d.number(at, 1, math.MaxFloat64)
		}},
	}
}

// readStrategy decodes a strategy, and the name of a custom one. The loader checks whether
// that name is registered.
func readStrategy(d *decoder, at place) (rule.Strategy, string) {
	if name, custom := strings.CutPrefix(at.text, dataset.CustomPrefix); custom && at.kind == kindText {
		if d.name(at); name == "" {
			d.fail(at.path, "has no strategy name; write %sNAME", dataset.CustomPrefix)
		}
		return rule.StrategyCustom, name
	}
	served := slices.DeleteFunc(rule.Strategies(), rule.Strategy.Custom)
	return word(d, at, served), ""
}

// readCastType decodes what a column becomes: the name of an Iceberg type that it is cast to, or category. It
// also accepts the names of the corresponding machine types, such as int64.
func readCastType(d *decoder, at place) string {
	const float, long = "float", "long"
	switch at.text {
	case "float32":
		return float
	case "float64":
		return "double"
	case "int32":
		return "int"
	case "int64":
		return long
	}
	types := []string{"int", long, float, "double", "date", "timestamp", "timestamptz", dataset.Category}
	meant := map[string]string{"categorical": dataset.Category, "dictionary": dataset.Category, "bigint": long, "integer": "int", "real": float, "datetime": "timestamp"}[strings.ToLower(at.text)]
	if at.kind == kindText && meant != "" {
		d.add(0, fault.Field{Field: at.path, Message: fmt.Sprintf("unknown value %q; known: %s", at.text, words(types)), Nearest: meant})
		return meant
	}
	return choice(d, at, types)
}
