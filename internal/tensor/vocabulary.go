package tensor

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// Vocabulary is a hash table from texts or integers to codes. It is made once for a session, and
// is safe for concurrent use.
type Vocabulary struct {
	texts    map[string]int64
	integers map[int64]int64
}

// NewVocabulary makes a vocabulary of values, which are texts or integers, and their codes. It keeps no
// reference to the arrays. Null values have no effect. If a value occurs twice, its first code counts.
func NewVocabulary(values arrow.Array, codes *array.Int64) (*Vocabulary, error) {
	if values.Len() != codes.Len() || codes.NullN() > 0 {
		return nil, fault.New(fault.Invalid, "a vocabulary has %d values and %d codes", values.Len(), codes.Len()-codes.NullN())
	}
	v := &Vocabulary{}
	s := Source(values.DataType().ID()).known()
	switch {
	case s != nil && s.kind == integers:
		v.integers = make(map[int64]int64, values.Len())
	case s != nil && s.kind == texts:
		v.texts = make(map[string]int64, values.Len())
	default:
		return nil, fault.New(fault.Invalid, "values of type %s cannot be encoded", values.DataType())
	}
	if values.Len() == 0 {
		return v, nil // the array may have no buffers
	}
	for i, code := range codes.Int64Values() {
		switch {
		case values.IsNull(i):
		case v.integers != nil:
			addFirst(v.integers, integerOf(values, i), code)
		default:
			addFirst(v.texts, string(textOf(values)(i)), code)
		}
	}
	return v, nil
}

func addFirst[K comparable](codes map[K]int64, key K, code int64) {
	if _, found := codes[key]; !found {
		codes[key] = code
	}
}

func integerOf(a arrow.Array, i int) int64 {
	switch a := a.(type) {
	case *array.Int8:
		return int64(a.Value(i))
	case *array.Int16:
		return int64(a.Value(i))
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Uint8:
		return int64(a.Value(i))
	case *array.Uint16:
		return int64(a.Value(i))
	case *array.Uint32:
		return int64(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	default:
		return 0 // not one of the integers
	}
}

// lookup finds codes in a vocabulary.
type lookup struct {
	*Vocabulary
	unknown  *int64 // the code of values that are not in the vocabulary; nil: they are findings
	isString bool   // whether errors show values as strings or as bytes
	found    *findings
}

func (l *lookup) integer(value int64) int64 {
	code, known := l.integers[value]
	if known {
		return code
	}
	return l.other(func() string { return strconv.FormatInt(value, 10) })
}

func (l *lookup) text(value []byte) int64 {
	code, known := l.texts[string(value)] // does not allocate
	if known {
		return code
	}
	return l.other(func() string { return quoted(string(value), l.isString) })
}

// shownUnknown is the number of unknown values that an error names.
const shownUnknown = 3

// other returns the code of a value that is not in the vocabulary.
func (l *lookup) other(format func() string) int64 {
	if l.unknown != nil {
		return *l.unknown
	}
	if len(l.found.unknown) < shownUnknown {
		if text := format(); !slices.Contains(l.found.unknown, text) {
			l.found.unknown = append(l.found.unknown, text)
		}
	}
	return 0
}

// quoted formats a text as Python does, since the errors are read in Python.
func quoted(text string, isString bool) string {
	quote, prefix := byte('\''), ""
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	if !isString {
		prefix = "b"
	}
	out := append([]byte(prefix), quote)
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case text[0] == quote || text[0] == '\\':
			out = append(out, '\\', text[0])
		case text[0] == '\n':
			out = append(out, `\n`...)
		case text[0] == '\r':
			out = append(out, `\r`...)
		case text[0] == '\t':
			out = append(out, `\t`...)
		case r < utf8.RuneSelf && unicode.IsPrint(r):
			out = append(out, text[0])
		case isString && r != utf8.RuneError && unicode.IsPrint(r):
			out = append(out, text[:size]...)
		default:
			size = 1
			out = append(out, '\\', 'x', hexDigits[text[0]>>4], hexDigits[text[0]&15])
		}
		text = text[size:]
	}
	return string(append(out, quote))
}

const hexDigits = "0123456789abcdef"

// bytesOf returns the bytes of a string, which must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
