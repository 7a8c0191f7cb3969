package decode

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// decoder decodes trees into values and collects all faults. Values that it returns after
// a fault are meaningless.
type decoder struct {
	faults []fault.Field
	limit  int            // maximum number of faults to report individually
	more   int            // number of faults beyond limit
	lines  map[string]int // line of each path in a YAML text
}

func newDecoder() *decoder { return &decoder{limit: maxFaults, lines: map[string]int{}} }

// err returns all faults as one Invalid error, or nil if there are none.
func (d *decoder) err() error {
	if d.more > 0 {
		d.faults = append(d.faults, fault.Field{Message: fmt.Sprintf("and %d more faults", d.more)})
		d.more = 0
	}
	return fault.Fields(d.faults)
}

// add records a fault. If line is 0, the line of the field is used, if it is known.
func (d *decoder) add(line int, f fault.Field) {
	if len(d.faults) == d.limit {
		d.more++
		return
	}
	if f.Line = line; line == 0 {
		f.Line = d.line(f.Field)
	}
	d.faults = append(d.faults, f)
}

// line returns the line of a path, or of its nearest ancestor with a known line.
func (d *decoder) line(path string) int {
	for {
		if line, ok := d.lines[path]; ok || path == "" {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

func (d *decoder) fail(path, format string, args ...any) {
	d.failAt(0, path, format, args...)
}

func (d *decoder) failAt(line int, path, format string, args ...any) {
	d.add(line, fault.Field{Field: path, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) tooLarge(path string, limit int) {
	d.fail(path, "values are nested more than %d deep, or there are more than %d of them", maxDepth, limit)
}

// sound reports whether no fault is at or below any of the paths. It returns false if there were
// too many faults to record. Checks that combine several fields run only if these fields are sound.
func (d *decoder) sound(paths ...string) bool {
	for _, f := range d.faults {
		for _, p := range paths {
			rest, ok := strings.CutPrefix(f.Field, p)
			if ok && (p == "" || rest == "" || rest[0] == '.' || rest[0] == '[') {
				return false
			}
		}
	}
	return d.more == 0
}

// field describes one known field of an object.
type field[T any] struct {
	name string
	read func(d *decoder, at place, into *T) // nil: a field that only later versions support; it is rejected by name
	must bool
	also []string // names for it in other programs
}

// meant returns the field that an unknown name was probably meant to be, or "", and the
// names of all fields of this version.
func meant[T any](name string, fields []field[T]) (nearest string, served []string) {
	for _, f := range fields {
		if f.read != nil {
			served = append(served, f.name)
		}
		if slices.Contains(f.also, strings.ToLower(name)) {
			nearest = f.name
		}
	}
	return cmp.Or(nearest, fault.Nearest(name, served)), served
}

// unknownField returns the fault of an unknown field. Only if it is listed, it has the field that was probably meant, or the known ones.
func unknownField[T any](name, path string, fields []field[T], listed bool) fault.Field {
	f := fault.Field{Field: path, Message: "unknown field"}
	if !listed {
		return f
	}
	var served []string
	if f.Nearest, served = meant(name, fields); f.Nearest == "" && len(served) > 0 {
		f.Message += "; known: " + strings.Join(served, ", ")
	}
	return f
}

// object decodes an object by its known fields. A null field counts as omitted.
func object[T any](d *decoder, at place, into *T, fields []field[T]) {
	if at.kind != kindObject {
		d.mismatch(at, "an object")
		return
	}
	given := map[string]bool{}
	for _, m := range at.members {
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == m.name })
		p := at.member(m)
		switch {
		case i < 0:
			d.add(m.line, unknownField(m.name, p.path, fields, len(d.faults) < d.limit))
		case p.kind == kindNull:
		case fields[i].read == nil:
			given[m.name] = true
			d.fail(p.path, "not supported by this version%s", cmp.Or(formOf(p.path), "; leave it out"))
		default:
			given[m.name] = true
			fields[i].read(d, p, into)
		}
	}
	for _, f := range fields {
		if f.must && !given[f.name] {
			d.fail(at.pathOf(f.name), "missing%s", formOf(at.pathOf(f.name)))
		}
	}
}

// list decodes each item of a list of at most limit items. It never returns nil.
func list[T any](d *decoder, at place, limit int, read func(*decoder, place) T) []T {
	out := []T{}
	if at.kind != kindList {
		d.mismatch(at, "a list")
		return out
	}
	if len(at.items) > limit {
		d.fail(at.path, "the list has %d entries, the limit is %d", len(at.items), limit)
		return out
	}
	for i := range at.items {
		out = append(out, read(d, at.item(i)))
	}
	return out
}

// text decodes text of any length.
func (d *decoder) text(at place) string {
	if at.kind == kindText {
		return at.text
	}
	hint := ""
	if at.line > 0 && at.kind != kindList && at.kind != kindObject && at.kind != kindNull {
		hint = "; put it in quotes"
	}
	d.fail(at.path, "must be text, not %s%s", at.kind, cmp.Or(hint, formOf(at.path)))
	return ""
}

// short decodes non-empty text of at most limit bytes without control characters.
func (d *decoder) short(at place, limit int) string {
	text := d.text(at)
	switch {
	case at.kind != kindText:
	case text == "":
		d.fail(at.path, "must not be empty")
	case len(text) > limit:
		d.fail(at.path, "has %d bytes, the limit is %d", len(text), limit)
	case strings.ContainsFunc(text, isControl):
		d.fail(at.path, "must not contain control characters")
	}
	return text
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// name decodes the name of a column, ref or staging table.
func (d *decoder) name(at place) string { return d.short(at, maxName) }

// whole decodes a whole number from minimum to maximum.
func (d *decoder) whole(at place, minimum, maximum int64) int64 {
	if at.kind != kindWhole {
		d.mismatch(at, "a whole number")
		return 0
	}
	v, err := strconv.ParseInt(at.text, 10, 64)
	switch {
	case err != nil:
		d.fail(at.path, "%s does not fit in a 64-bit integer", fault.Shorten(at.text, 40))
	case v < minimum:
		d.fail(at.path, "must be at least %d, not %d", minimum, v)
	case v > maximum:
		d.fail(at.path, "must be at most %d, not %d", maximum, v)
	}
	return v
}

// snapshotID decodes the id of a snapshot, which is at least minimum. Reports have ids as strings,
// so a string of digits is also an id.
func (d *decoder) snapshotID(at place, minimum int64) int64 {
	if at.kind == kindText && isWhole(at.text) {
		at.kind = kindWhole
	}
	return d.whole(at, minimum, maxInt64)
}

// choice decodes one of the words in served. The words in later are specified but not
// supported by this version.
func choice[E ~string](d *decoder, at place, served []E, later ...E) E {
	got := E(d.text(at))
	switch {
	case at.kind != kindText || slices.Contains(served, got):
	case slices.Contains(later, got):
		d.fail(at.path, "%s is not supported by this version; supported: %s", got, words(served))
	default:
		d.add(0, fault.Field{
			Field: at.path, Message: fmt.Sprintf("unknown value %q; known: %s", fault.Shorten(string(got), 40), words(served)),
			Nearest: nearest(got, served),
		})
	}
	return got
}

// word decodes one of the given words.
func word[W rule.Word](d *decoder, at place, served []W) W {
	texts := make([]string, len(served))
	for i, w := range served {
		texts[i] = w.String()
	}
	w, _ := rule.Parse(choice(d, at, texts), served) // choice reports the fault
	return w
}

func nearest[E ~string](got E, among []E) string {
	return fault.Nearest(string(got), strings.Split(words(among), ", "))
}

func words[E ~string](list []E) string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

func (d *decoder) filter(at place) dataset.Filter {
	out, err := dataset.ParseFilter(d.text(at))
	d.parsed(at, err)
	return out
}

// expression decodes the text of a value expression.
func (d *decoder) expression(at place) string {
	text := d.text(at)
	if at.kind == kindText {
		_, err := expr.ParseValue(text)
		d.parsed(at, err)
	}
	return text
}

// parsed reports the faults of parsing a text.
func (d *decoder) parsed(at place, err error) {
	if err == nil {
		return
	}
	e := fault.As(err)
	if len(e.Faults) == 0 {
		d.fail(at.path, "%s", e.Message)
	}
	for _, f := range e.Faults {
		f.Field = at.path
		d.add(0, f)
	}
}
