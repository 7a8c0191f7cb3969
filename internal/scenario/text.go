package scenario

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/catalog"
)

// The text form of a table has a line per row, with a word per value, separated by
// spaces. Any word, and any value in brackets, may be a JSON string in double quotes,
// which stands for its contents. So "-", "" and "a b" are strings.
//
//	-  (in brackets: null)     null
//	12  -1.5  NaN  -Inf  true  numbers and booleans
//	2024-02-29  12:30:00.5     dates and times
//	2024-02-29T12:30:00Z       timestamps, with or without zone
//	@-800000                   a date, time or timestamp in its units
//	AAEC                       bytes in base64; 16 bytes also as a UUID
//	[1,null,3]                 a list
//	{"id":1,"name":"x"}        a struct, all of its fields in order; a map

// null is the word for a null, and nullInside is the word for a null in brackets.
const (
	null       = "-"
	nullInside = "null"
)

// Rows parses lines of values in the order of the fields.
func Rows(fields []catalog.Field, lines []string) (arrow.RecordBatch, error) {
	rows, err := parseLines(fields, lines)
	if err != nil {
		return nil, err
	}
	return batchOf(fields, rows)
}

// parseLines returns the values of lines, in the same form as Values.
func parseLines(fields []catalog.Field, lines []string) ([][]any, error) {
	rows := make([][]any, len(lines))
	for k, line := range lines {
		words := Words(line)
		if len(words) != len(fields) {
			return nil, fmt.Errorf("row %q has %d values, the header has %d", line, len(words), len(fields))
		}
		rows[k] = make([]any, len(words))
		for i, word := range words {
			v, err := parseWord(fields[i].Type, word)
			if err != nil {
				return nil, fmt.Errorf("value %q of %s: %w", word, fields[i].Name, err)
			}
			rows[k][i] = v
		}
	}
	return rows, nil
}

// Words splits a line at spaces that are neither in quotes nor in brackets.
func Words(line string) []string {
	var words []string
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		n := wordLength(line)
		words = append(words, line[:n])
		line = line[n:]
	}
	return words
}

func wordLength(line string) int {
	if !strings.ContainsRune(`"[{`, rune(line[0])) {
		n := strings.IndexAny(line, " \t")
		if n < 0 {
			return len(line)
		}
		return n
	}
	depth, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case depth == 0 && (c == ' ' || c == '\t'):
			return i
		}
	}
	return len(line)
}

// parseWord parses a value of a type.
func parseWord(dt arrow.DataType, text string) (any, error) {
	if text == null {
		return nil, nil //nolint:nilnil // a null is a value
	}
	p := &valueText{rest: text}
	v, err := p.value(dt, "")
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q is left over", p.rest)
	}
	return v, err
}

// valueText is the rest of a word.
type valueText struct{ rest string }

func (p *valueText) accept(mark string) bool {
	rest, found := strings.CutPrefix(p.rest, mark)
	p.rest = rest
	return found
}

// value parses a value. A value without quotes extends to the first of the characters in ends.
func (p *valueText) value(dt arrow.DataType, ends string) (any, error) {
	if ends != "" && (p.rest == nullInside || len(p.rest) > 4 && p.rest[:4] == nullInside && strings.ContainsRune(ends, rune(p.rest[4]))) {
		p.accept(nullInside)
		return nil, nil //nolint:nilnil // a null is a value
	}
	switch dt := dt.(type) {
	case *arrow.ListType:
		var list []any
		err := p.between("[", "]", func() error {
			v, err := p.value(dt.Elem(), ",]")
			list = append(list, v)
			return err
		})
		return append([]any{}, list...), err
	case *arrow.MapType:
		entries := cell.Map{}
		err := p.between("{", "}", func() error {
			key, err := p.value(dt.KeyType(), ":")
			if err != nil || !p.accept(":") {
				return errors.Join(err, errors.New("a map has key:value"))
			}
			v, err := p.value(dt.ItemType(), ",}")
			entries = append(entries, cell.Entry{Key: key, Value: v})
			return err
		})
		return entries, err
	case *arrow.StructType:
		fields := cell.Struct{}
		err := p.between("{", "}", func() error {
			name, err := p.scalar(":")
			if i := len(fields); err != nil || i == dt.NumFields() || dt.Field(i).Name != name || !p.accept(":") {
				return errors.Join(err, fmt.Errorf("%q is not field %d of %s", name, i, dt))
			}
			v, err := p.value(dt.Field(len(fields)).Type, ",}")
			fields = append(fields, v)
			return err
		})
		if err == nil && len(fields) < dt.NumFields() {
			err = fmt.Errorf("a struct of %d fields, the type has %d", len(fields), dt.NumFields())
		}
		return fields, err
	default:
		text, err := p.scalar(ends)
		if err != nil {
			return nil, err
		}
		return parseScalar(dt, text)
	}
}

// between parses a list in brackets, separated by commas.
func (p *valueText) between(open, end string, one func() error) error {
	if !p.accept(open) {
		return fmt.Errorf("%q does not begin with %s", p.rest, open)
	}
	if p.accept(end) {
		return nil
	}
	for {
		if err := one(); err != nil {
			return err
		}
		if p.accept(end) {
			return nil
		}
		if !p.accept(",") {
			return fmt.Errorf("%q does not continue with , or %s", p.rest, end)
		}
	}
}

// scalar parses a text, with quotes or without.
func (p *valueText) scalar(ends string) (string, error) {
	if strings.HasPrefix(p.rest, `"`) {
		d := json.NewDecoder(strings.NewReader(p.rest))
		var text string
		err := d.Decode(&text)
		if err == nil {
			p.rest = p.rest[d.InputOffset():]
		}
		return text, err
	}
	n := len(p.rest)
	if ends != "" {
		if n = strings.IndexAny(p.rest, ends); n < 0 {
			return "", fmt.Errorf("%q does not end", p.rest)
		}
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	return text, nil
}

// parseScalar parses a value that is not nested.
func parseScalar(dt arrow.DataType, text string) (any, error) {
	if units, ok := strings.CutPrefix(text, "@"); ok {
		switch dt.ID() {
		case arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP:
			return strconv.ParseInt(units, 10, 64)
		}
	}
	switch dt := dt.(type) {
	case *arrow.Int32Type:
		return strconv.ParseInt(text, 10, 32)
	case *arrow.Int64Type:
		return strconv.ParseInt(text, 10, 64)
	case *arrow.Float32Type:
		return strconv.ParseFloat(text, 32)
	case *arrow.Float64Type:
		return strconv.ParseFloat(text, 64)
	case *arrow.BooleanType:
		return strconv.ParseBool(text)
	case *arrow.StringType:
		return text, nil
	case *arrow.BinaryType:
		raw, err := base64.StdEncoding.DecodeString(text)
		return string(raw), err
	case *arrow.FixedSizeBinaryType:
		return parseFixed(text, dt.ByteWidth)
	case *arrow.Decimal128Type:
		n, ok := new(big.Rat).SetString(text)
		if !ok || !new(big.Rat).Mul(n, new(big.Rat).SetInt(cell.PowerOfTen(dt.Scale))).IsInt() {
			return nil, fmt.Errorf("no decimal of scale %d", dt.Scale)
		}
		return cell.Decimal(n.FloatString(int(dt.Scale))), nil
	default:
		return parseTemporal(dt, text)
	}
}

// parseFixed parses bytes in base64, or a UUID.
func parseFixed(text string, width int) (any, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if plain := strings.ReplaceAll(text, "-", ""); width == uuidBytes && len(text) == 36 && len(plain) == 32 {
		raw, err = hex.DecodeString(plain)
	}
	if err == nil && len(raw) != width {
		err = fmt.Errorf("%d bytes, the type has %d", len(raw), width)
	}
	return string(raw), err
}

// instantForm is the layout of timestamps; years are 1 to 9999.
const instantForm = "2006-01-02T15:04:05.999999999"

func parseTemporal(dt arrow.DataType, text string) (any, error) {
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		t, err := time.Parse(time.DateOnly, text)
		return cell.FloorDiv(t.Unix(), secondsPerDay), err
	case *arrow.Time64Type:
		t, err := cell.ParseTime(text, "15:04:05", "15:04")
		midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		return t.Sub(midnight).Microseconds(), err
	case *arrow.TimestampType:
		t, err := cell.ParseTime(strings.TrimSuffix(text, "Z"), instantForm, "2006-01-02T15:04", time.DateOnly)
		if dt.Unit == arrow.Nanosecond {
			return t.UnixNano(), err
		}
		return t.UnixMicro(), err
	default:
		return nil, fmt.Errorf("no value of type %s has a text", dt)
	}
}

const secondsPerDay = 24 * 60 * 60

// word returns a value as a word that parseWord can parse.
func word(dt arrow.DataType, v any) string {
	if v == nil {
		return null
	}
	text := scalarWord(dt, v)
	if text == "" || text == null || strings.ContainsRune(`"[{`, rune(text[0])) && isScalar(v) || strings.ContainsFunc(text, needsQuotes) && isScalar(v) {
		return quoted(text)
	}
	return text
}

func isScalar(v any) bool {
	switch v.(type) {
	case []any, cell.Map, cell.Struct:
		return false
	default:
		return true
	}
}

// needsQuotes reports whether a character must be in quotes.
func needsQuotes(r rune) bool {
	return r <= ' ' || r == 0x7f || r == 0x85 || r == 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

// quoted returns a text as a JSON string.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// inner returns the text of a value inside brackets.
func inner(dt arrow.DataType, v any) string {
	if v == nil {
		return nullInside
	}
	text := scalarWord(dt, v)
	if isScalar(v) && (text == "" || text == nullInside || strings.ContainsAny(text, `,:[]{}"`) || strings.ContainsFunc(text, needsQuotes)) {
		return quoted(text)
	}
	return text
}

// scalarWord renders a value, without quotes unless it is nested.
func scalarWord(dt arrow.DataType, v any) string {
	var parts []string
	switch v := v.(type) {
	case []any:
		element := elementOf(dt)
		for _, e := range v {
			parts = append(parts, inner(element, e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case cell.Map:
		of := dt.(*arrow.MapType)
		for _, e := range v {
			parts = append(parts, inner(of.KeyType(), e.Key)+":"+inner(of.ItemType(), e.Value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case cell.Struct:
		of := dt.(*arrow.StructType)
		for i, field := range v {
			parts = append(parts, of.Field(i).Name+":"+inner(of.Field(i).Type, field))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case int64:
		return integerWord(dt, v)
	case string:
		switch dt := dt.(type) {
		case *arrow.BinaryType:
			return base64.StdEncoding.EncodeToString([]byte(v))
		case *arrow.FixedSizeBinaryType:
			if dt.ByteWidth == uuidBytes {
				return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
			}
			return base64.StdEncoding.EncodeToString([]byte(v))
		}
		return v
	case float64:
		if math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return fmt.Sprint(v)
	default:
		return fmt.Sprint(v)
	}
}

// elementOf returns the type of a list's elements; nil if dt is not a list.
func elementOf(dt arrow.DataType) arrow.DataType {
	if list, ok := dt.(*arrow.ListType); ok {
		return list.Elem()
	}
	return nil
}

func integerWord(dt arrow.DataType, v int64) string {
	var t time.Time
	form := instantForm
	switch dt := dt.(type) {
	case *arrow.Date32Type:
		t, form = time.Unix(v*secondsPerDay, 0), time.DateOnly
	case *arrow.Time64Type:
		t, form = time.UnixMicro(v), "15:04:05.999999"
	case *arrow.TimestampType:
		t = time.UnixMicro(v)
		if dt.Unit == arrow.Nanosecond {
			t = time.Unix(0, v)
		}
	default:
		return strconv.FormatInt(v, 10)
	}
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return "@" + strconv.FormatInt(v, 10)
	}
	return t.Format(form)
}

// Format renders rows as an aligned text table with a header of names and types.
func Format(schema *arrow.Schema, rows [][]any) string {
	lines := [][]string{{}}
	for _, f := range schema.Fields() {
		required := ""
		if !f.Nullable {
			required = "!"
		}
		lines[0] = append(lines[0], f.Name+":"+f.Type.String()+required)
	}
	for _, row := range rows {
		words := make([]string, len(row))
		for i, v := range row {
			words[i] = word(schema.Field(i).Type, v)
		}
		lines = append(lines, words)
	}
	widths := make([]int, len(lines[0]))
	for _, words := range lines {
		for i, word := range words {
			widths[i] = max(widths[i], len(word))
		}
	}
	var b strings.Builder
	for _, words := range lines {
		var line strings.Builder
		for i, word := range words {
			fmt.Fprintf(&line, "%-*s  ", widths[i], word)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
