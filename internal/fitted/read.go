package fitted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
)

// Limits of files and lists.
const (
	MaxFile   = 128 << 20 // bytes
	MaxBounds = 1 << 16   // values of quantiles
	MaxValues = 1 << 20   // values of a vocabulary
	maxLists  = 1000      // lists of a file
)

// Most returns the maximum number of values of a list.
func (k Kind) Most() int {
	switch k {
	case Quantiles:
		return MaxBounds
	case Vocabulary:
		return MaxValues
	}
	return 0
}

// written is a list in the content of a file.
type written struct {
	column, of string // of is the type of the column
	kind       Kind
	values     []byte // JSON
}

// parse returns the lists of a file. Their values are parts of content.
func parse(content []byte) ([]written, error) {
	content = bytes.TrimSpace(content)
	if !json.Valid(content) || !utf8.Valid(content) {
		return nil, unreadable("it is not JSON in UTF-8")
	}
	version, lists, members := "", []written(nil), once{}
	isObject, err := eachMember(content, func(name string, value []byte) error {
		switch name {
		case "version":
			version = string(value)
		case "lists":
			isList, err := eachItem(value, func(item []byte) error {
				if len(lists) == maxLists {
					return unreadable("it has more than %d lists", maxLists)
				}
				list, err := parseList(item)
				lists = append(lists, list)
				return err
			})
			switch {
			case err != nil:
				return err
			case !isList:
				return unreadable("lists is not a list")
			}
		case "from", "filter", "snapshots", "rows":
		default:
			return unreadable("it has an unknown field %s", fault.Shorten(name, maxShown))
		}
		return members.add(name)
	})
	switch {
	case !isObject:
		return nil, unreadable("it is not an object")
	case version != strconv.Itoa(Version) && version != "":
		return nil, fault.New(fault.Invalid, "the file has form %s, and this version reads form %d", fault.Shorten(version, maxShown), Version).
			WithRemedy("use a version of Penstock that reads the file, or write it again with penstock fit")
	case err != nil:
		return nil, err
	case version == "" || len(lists) == 0:
		return nil, unreadable("it has no version or no lists")
	}
	return lists, nil
}

// maxShown is the maximum length of a text of the file in an error, in bytes.
const maxShown = 40

// once has the names of the members of an object.
type once []string

// add adds a name, or fails if it is there.
func (o *once) add(name string) error {
	if slices.Contains(*o, name) {
		return unreadable("%s is given twice", name)
	}
	*o = append(*o, name)
	return nil
}

// parseList returns a list of a file.
func parseList(text []byte) (written, error) {
	var out written
	members := once{}
	isObject, err := eachMember(text, func(name string, value []byte) error {
		var err error
		switch name {
		case "column":
			err = json.Unmarshal(value, &out.column)
		case "kind":
			err = json.Unmarshal(value, &out.kind)
		case "type":
			err = json.Unmarshal(value, &out.of)
		case "values":
			out.values = value
		case "asked", "nulls", "nans", "distinct", "min_count", "counts":
		default:
			return unreadable("a list has an unknown field %s", fault.Shorten(name, maxShown))
		}
		if err != nil {
			return unreadable("%s of a list is not a text", name)
		}
		return members.add(name)
	})
	switch {
	case err != nil:
		return out, err
	case !isObject || out.column == "" || out.values == nil || out.typeOf() == arrow.NULL:
		return out, unreadable("a list has no column or no values, or its kind %q does not fit its type %q", fault.Shorten(out.kind.String(), maxShown), fault.Shorten(out.of, maxShown))
	}
	return out, nil
}

// unreadable returns the error for a file that is not of the form that fit writes.
func unreadable(format string, args ...any) error {
	return fault.New(fault.Invalid, "the file is not a file of penstock fit: %s", fmt.Sprintf(format, args...)).WithRemedy("write it again with penstock fit")
}

// choose returns the only list of a column and a kind. "" stands for any of them.
func choose(lists []written, column string, kind Kind) (written, error) {
	var fit []written
	names := make([]string, 0, maxNamed)
	for _, l := range lists {
		if (column == "" || l.column == column) && (kind == "" || l.kind == kind) {
			fit = append(fit, l)
		}
		if len(names) < maxNamed {
			names = append(names, fmt.Sprintf("{column: %s, kind: %s}", l.column, l.kind))
		}
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	return written{}, fault.New(fault.Invalid, "the file has %s of column %q and kind %q", fault.Count(len(fit), "list"), column, kind).
		WithRemedy("set column and kind to those of one list of the file, such as %s", strings.Join(names, ", "))
}

// maxNamed is the maximum number of lists that an error names.
const maxNamed = 10

// read returns the list with its values, whose memory it charges to held.
func (w written) read(held *budget.Reservation) (*expr.List, error) {
	n := min(bytes.Count(w.values, []byte(","))+1, w.kind.Most())
	if err := held.Grow(int64(len(w.values)) + int64(n)*(expr.IndexBytes+int64(arrow.Int64SizeBytes))); err != nil {
		return nil, fault.As(err).WithRemedy("raise the setting memory, or fit a smaller list")
	}
	items := &reading{kind: w.kind, builder: array.NewBuilder(memory.DefaultAllocator, w.dataType())}
	defer items.builder.Release()
	items.builder.Reserve(n)
	if texts, ok := items.builder.(*array.StringBuilder); ok {
		texts.ReserveData(len(w.values))
	}
	isList, err := eachItem(w.values, items.add)
	if err == nil && (!isList || items.builder.Len() == 0) {
		err = fault.New(fault.Invalid, "there are no values")
	}
	if err != nil {
		return nil, fault.Op(err, "read the %s of column %s", w.kind, w.column)
	}
	list, err := expr.NewList(items.builder.NewArray())
	return list, fault.Op(err, "read the %s of column %s", w.kind, w.column)
}

// typeOf returns the type of the values: int64, float64 or string; NULL if the kind and the type of the column
// do not go together.
func (w written) typeOf() arrow.Type {
	isNumber, isFloat := w.of == "int32" || w.of == "int64", w.of == "float32" || w.of == "float64"
	switch w.kind {
	case Quantiles:
		if isFloat {
			return arrow.FLOAT64
		}
	case Vocabulary:
		if w.of == "utf8" {
			return arrow.STRING
		}
	default:
		return arrow.NULL
	}
	if isNumber {
		return arrow.INT64
	}
	return arrow.NULL
}

func (w written) dataType() arrow.DataType {
	switch id := w.typeOf(); id {
	case arrow.INT64:
		return arrow.PrimitiveTypes.Int64
	case arrow.FLOAT64:
		return arrow.PrimitiveTypes.Float64
	default:
		return arrow.BinaryTypes.String
	}
}

// reading reads the values of a list.
type reading struct {
	kind    Kind
	builder array.Builder
	last    float64 // the last bound of floats
}

// add adds a value, which is JSON.
func (v *reading) add(text []byte) error {
	n := v.builder.Len()
	if n == v.kind.Most() {
		return fault.New(fault.Invalid, "there are more than %d values", n).WithRemedy("fit a smaller list")
	}
	var err error
	switch to := v.builder.(type) {
	case *array.StringBuilder:
		err = addText(to, text)
	case *array.Int64Builder:
		err = v.addInteger(to, text)
	case *array.Float64Builder:
		err = v.addFloat(to, text)
	}
	if err != nil {
		return fault.New(fault.Invalid, "value %d, %s, %w", n+1, fault.Shorten(string(text[:min(len(text), maxShown)]), maxShown), err)
	}
	return nil
}

func addText(to *array.StringBuilder, text []byte) error {
	if text[0] != '"' {
		return errors.New("is not a text")
	}
	if bytes.IndexByte(text, '\\') < 0 {
		to.BinaryBuilder.Append(text[1 : len(text)-1])
		return nil
	}
	var value string
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	if strings.ContainsRune(value, utf8.RuneError) {
		return errors.New(`has a \u escape that is not a character`)
	}
	to.Append(value)
	return nil
}

var errDescends = errors.New("is not greater than the value before")

func (v *reading) addInteger(to *array.Int64Builder, text []byte) error {
	x, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil:
		return errors.New("is not a whole number within long")
	case v.kind == Quantiles && to.Len() > 0 && x <= to.Value(to.Len()-1):
		return errDescends
	}
	to.Append(x)
	return nil
}

func (v *reading) addFloat(to *array.Float64Builder, text []byte) error {
	x, err := strconv.ParseFloat(string(text), 64)
	switch {
	case err != nil || math.IsInf(x, 0) || math.IsNaN(x):
		return errors.New("is not a finite number")
	case to.Len() > 0 && x <= v.last:
		return errDescends
	}
	v.last = x
	to.Append(x)
	return nil
}
