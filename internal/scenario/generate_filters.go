package scenario

import (
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
)

// filterColumn is a column for filters, and some of its values.
type filterColumn struct {
	name   string
	dt     arrow.DataType
	values []any
}

// columnsOf returns the columns of a table.
func columnsOf(t Table) []filterColumn {
	fields, _ := Fields(t.Header) // cannot fail: the generator wrote the header
	columns := make([]filterColumn, len(fields))
	for i, f := range fields {
		columns[i] = filterColumn{name: f.Name, dt: f.Type}
	}
	for _, c := range t.Commits {
		rows, _ := parseLines(fields, c.Lines[:min(len(c.Lines), 8)])
		for _, row := range rows {
			for i, v := range row {
				if v != nil {
					columns[i].values = append(columns[i].values, v)
				}
			}
		}
	}
	return columns
}

// trees makes random filters over some columns.
type trees struct {
	*generator
	columns []filterColumn
}

// filter makes a random filter over columns.
func (g *generator) filter(columns []filterColumn) *cell.Filter {
	t := trees{g, columns}
	return t.tree(pick(g.Rand, 0, 0, 1, 1, 2, 3))
}

func (t trees) tree(depth int) *cell.Filter {
	if depth == 0 || t.chance(5) {
		return t.condition()
	}
	switch t.IntN(5) {
	case 0:
		return t.seen(&cell.Filter{Op: cell.OpNot, Terms: []*cell.Filter{t.tree(depth - 1)}})
	case 1, 2:
		return t.seen(&cell.Filter{Op: cell.OpAnd, Terms: t.terms(depth)})
	default:
		return t.seen(&cell.Filter{Op: cell.OpOr, Terms: t.terms(depth)})
	}
}

func (t trees) terms(depth int) []*cell.Filter {
	terms := make([]*cell.Filter, 2+t.IntN(2))
	for i := range terms {
		terms[i] = t.tree(depth - 1)
	}
	return terms
}

// seen counts a condition by its operator.
func (t trees) seen(c *cell.Filter) *cell.Filter {
	name := "filter "
	if c.Negated {
		name += "NOT "
	}
	t.Layouts[name+c.Op]++
	return c
}

// condition makes a condition on one column, or a comparison of two.
func (t trees) condition() *cell.Filter {
	c := pick(t.Rand, t.columns...)
	left := cell.Operand{Path: c.name}
	if s, ok := c.dt.(*arrow.StructType); ok && t.chance(20) {
		return &cell.Filter{Op: cell.OpNull, Operands: []cell.Operand{{Path: c.name + "." + s.Field(0).Name}}} // refused
	}
	t.Layouts["filter on "+c.dt.Name()]++
	switch choice := t.IntN(10); {
	case choice == 0 || arrow.IsNested(c.dt.ID()):
		return t.seen(&cell.Filter{Op: cell.OpNull, Negated: t.chance(2), Operands: []cell.Operand{left}})
	case choice == 1:
		items := []cell.Operand{left}
		for range 1 + t.IntN(5) {
			items = append(items, t.literal(c))
		}
		return t.seen(&cell.Filter{Op: cell.OpIn, Negated: t.chance(2), Operands: items})
	case choice == 2:
		return t.seen(&cell.Filter{Op: cell.OpBetween, Negated: t.chance(2), Operands: []cell.Operand{left, t.other(c), t.other(c)}})
	case choice == 3 && c.dt.ID() == arrow.BOOL:
		if t.chance(4) {
			left = cell.Operand{Literal: pick(t.Rand, "TRUE", "FALSE")}
		}
		return t.seen(&cell.Filter{Op: cell.OpTruth, Operands: []cell.Operand{left}})
	case choice <= 4 && c.dt.ID() == arrow.STRING:
		return t.seen(&cell.Filter{Op: cell.OpLike, Negated: t.chance(3), Operands: []cell.Operand{left, t.pattern(c)}})
	default:
		op := pick(t.Rand, "=", "=", "<>", "!=", "<", "<=", ">", ">=")
		if t.chance(5) {
			return t.seen(&cell.Filter{Op: op, Operands: []cell.Operand{t.literal(c), left}})
		}
		return t.seen(&cell.Filter{Op: op, Operands: []cell.Operand{left, t.other(c)}})
	}
}

// other returns a literal, or a column that can be compared with the given column.
func (t trees) other(c filterColumn) cell.Operand {
	var names []string
	for _, o := range t.columns {
		if alike(c.dt, o.dt) && (o.name != c.name || t.chance(8)) {
			names = append(names, o.name)
		}
	}
	if len(names) > 0 && t.chance(3) {
		t.Layouts["filter between columns"]++
		return cell.Operand{Path: pick(t.Rand, names...)}
	}
	return t.literal(c)
}

// alike reports whether columns of two types can be compared. The types must be of the same family;
// decimals must have the same scale; timestamps must have the same unit, and either both or neither
// must have a zone.
func alike(a, b arrow.DataType) bool {
	families := [][]arrow.Type{{arrow.INT32, arrow.INT64}, {arrow.FLOAT32, arrow.FLOAT64}, {arrow.BINARY, arrow.FIXED_SIZE_BINARY}}
	for _, family := range families {
		if slices.Contains(family, a.ID()) {
			return slices.Contains(family, b.ID())
		}
	}
	if x, ok := a.(*arrow.Decimal128Type); ok {
		y, ok := b.(*arrow.Decimal128Type)
		return ok && x.Scale == y.Scale
	}
	return arrow.TypeEqual(a, b)
}

// pattern returns a pattern for LIKE: a prefix of a text, or a text in which wildcards replace some
// characters and are inserted between others.
func (t trees) pattern(c filterColumn) cell.Operand {
	text := t.value(c.dt).(string)
	if len(c.values) > 0 && t.chance(2) {
		text = pick(t.Rand, c.values...).(string)
	}
	points := []rune(text)
	escape := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	if t.chance(2) {
		return cell.Operand{Literal: quotedText(escape.Replace(string(points[:t.IntN(len(points)+1)])) + "%")}
	}
	var b strings.Builder
	for _, point := range points {
		switch t.IntN(6) {
		case 0:
			b.WriteString("_")
		case 1:
			b.WriteString("%")
		case 2:
			b.WriteString("%" + escape.Replace(string(point)))
		default:
			b.WriteString(escape.Replace(string(point)))
		}
	}
	return cell.Operand{Literal: quotedText(b.String() + pick(t.Rand, "", "", "%", "_"))}
}

func quotedText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// literal returns a literal: a value of the column or of its type, a value close to such a value,
// or a value out of range.
func (t trees) literal(c filterColumn) cell.Operand {
	v := t.value(c.dt)
	if len(c.values) > 0 && t.IntN(3) > 0 {
		v = pick(t.Rand, c.values...)
	}
	return cell.Operand{Literal: t.literalText(c.dt, v)}
}

func (t trees) literalText(dt arrow.DataType, v any) string {
	switch v := v.(type) {
	case bool:
		return strings.ToUpper(strconv.FormatBool(v))
	case float64:
		return t.floatText(dt, v)
	case cell.Decimal:
		return t.numberText(string(v))
	case int64:
		switch dt := dt.(type) {
		case *arrow.Date32Type:
			return t.dateText(v)
		case *arrow.Time64Type:
			return pick(t.Rand, "TIME ", "") + "'" + integerWord(dt, v) + pick(t.Rand, "'", t.fraction(integerWord(dt, v))+"'")
		case *arrow.TimestampType:
			return t.timestampText(dt, v)
		default:
			return t.numberText(strconv.FormatInt(v, 10))
		}
	}
	text := v.(string)
	switch dt := dt.(type) {
	case *arrow.StringType:
		return quotedText(text)
	case *arrow.FixedSizeBinaryType:
		if dt.ByteWidth == uuidBytes && t.chance(2) {
			return "'" + scalarWord(dt, text) + "'"
		}
		text = text[:pick(t.Rand, len(text), len(text), t.IntN(len(text)+1))]
	}
	return "X'" + hex.EncodeToString([]byte(text)) + "'"
}

// numberText returns the given number, or a number close to it, in any notation.
func (t trees) numberText(text string) string {
	switch t.IntN(8) {
	case 0:
		return text + pick(t.Rand, "e0", "E+0", "e1", "e-1", "e20")
	case 1:
		if !strings.Contains(text, ".") {
			text += "."
		}
		return text + pick(t.Rand, "0", "000", "5", "00000000000000000000000000001")
	case 2:
		return pick(t.Rand, "2147483648", "-2147483649", "9223372036854775808", "-9223372036854775809", "1e39", "-1e39", "0", "-0", ".5")
	default:
		return text
	}
}

func (t trees) floatText(dt arrow.DataType, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) || t.chance(6) {
		return pick(t.Rand, "1e39", "-1e39", "1e400", "-1e400", "0", "-0", "1e-60", "0.1", "0.30000001", "3.4028235e38")
	}
	size := 64
	if dt.ID() == arrow.FLOAT32 {
		size = 32
	}
	return strconv.FormatFloat(v, pick[byte](t.Rand, 'g', 'e'), -1, size)
}

func (t trees) dateText(v int64) string {
	day := time.Unix((v+pick[int64](t.Rand, 0, 0, 0, 1, -1))*secondsPerDay, 0).UTC()
	if day.Year() < 1 || day.Year() > 9999 {
		return pick(t.Rand, "DATE '0001-01-01'", "'9999-12-31'")
	}
	return pick(t.Rand, "DATE ", "date", "") + "'" + day.Format(time.DateOnly) + "'"
}

// fraction returns a fraction of a second for a time that has no fraction. It is often too fine for
// the column.
func (t trees) fraction(text string) string {
	if strings.Contains(text, ".") {
		return ""
	}
	return pick(t.Rand, ".5", ".000001", ".0000001", ".999999999")
}

func (t trees) timestampText(dt *arrow.TimestampType, v int64) string {
	at := instant(dt, v).Add(pick[time.Duration](t.Rand, 0, 0, 0, 1, -1, time.Microsecond, time.Hour))
	if at.Year() < 2 || at.Year() > 9998 { // an offset must not lead out of the years
		return pick(t.Rand, "DATE '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999999'")
	}
	if t.chance(5) {
		return pick(t.Rand, "DATE ", "TIMESTAMP ", "") + "'" + at.Format(time.DateOnly) + "'"
	}
	zone := ""
	if dt.TimeZone != "" {
		minutes := pick(t.Rand, 0, 0, 120, -570)
		zone = pick(t.Rand, "", at.In(time.FixedZone("", minutes*60)).Format("-07:00"))
		if zone != "" {
			at = at.In(time.FixedZone("", minutes*60))
			zone = pick(t.Rand, zone, strings.Replace(zone, "+00:00", "Z", 1))
		}
	}
	form := pick(t.Rand, "2006-01-02 15:04:05.999999999", instantForm)
	return pick(t.Rand, "TIMESTAMP ", "timestamp", "") + "'" + at.Format(form) + zone + "'"
}
