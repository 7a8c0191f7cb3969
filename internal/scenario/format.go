package scenario

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
)

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
