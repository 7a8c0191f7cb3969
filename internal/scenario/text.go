package scenario

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
