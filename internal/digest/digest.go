// Package digest names values by what they hold, so that no cache key and no
// plan id is a text that somebody put together by hand and forgot a field of.
//
// A value is made for its digest: a struct of plain data that holds all that
// the thing named depends on, and nothing else. Every field counts, those that
// are not exported too; [github.com/penstock/penstock/internal/digest/digesttest]
// changes each of them and demands another digest.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// Of returns 64 hexadecimal digits of SHA-256 over a value's content. It is the
// same in every process and on every machine.
//
// Booleans, numbers, strings (any bytes), arrays, slices, maps, structs,
// pointers (by what they point to) and interfaces (by the name of the type they
// hold, and its content) have a content. Two values have the same digest where
// they are of the same type and hold the same; a nil slice or map is an empty
// one, and a float is its bits. The names of struct fields and of struct types
// are no content, but the order of fields is.
//
// Functions, channels and unsafe pointers have none, nor does what points to
// itself: Of panics, since such a value was not made for it.
func Of(v any) string {
	e := encoder{}
	e.value(reflect.ValueOf(v), 0)
	sum := sha256.Sum256(e.out)
	return hex.EncodeToString(sum[:])
}

// deepest is how deep values may be nested. What is deeper points to itself.
const deepest = 100

// encoder writes values one after another such that no two lists of values have
// the same bytes: whatever may have several lengths begins with its own.
type encoder struct{ out []byte }

func (e *encoder) uint(n uint64) { e.out = binary.AppendUvarint(e.out, n) }

func (e *encoder) text(s string) {
	e.uint(uint64(len(s)))
	e.out = append(e.out, s...)
}

func (e *encoder) value(v reflect.Value, depth int) {
	if depth > deepest {
		refuse("a value of type %s points to itself", v.Type())
	}
	switch kind := v.Kind(); kind {
	case reflect.Bool:
		e.uint(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = binary.AppendVarint(e.out, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.uint(v.Uint())
	case reflect.Float32, reflect.Float64:
		e.uint(math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		e.uint(math.Float64bits(real(v.Complex())))
		e.uint(math.Float64bits(imag(v.Complex())))
	case reflect.String:
		e.text(v.String())
	case reflect.Slice, reflect.Array:
		e.uint(uint64(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i), depth+1)
		}
	case reflect.Map:
		e.entries(v, depth)
	case reflect.Struct:
		for _, field := range v.Fields() {
			e.value(field, depth+1)
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			e.uint(0)
			return
		}
		e.uint(1)
		if kind == reflect.Interface {
			e.text(v.Elem().Type().String())
		}
		e.value(v.Elem(), depth+1)
	case reflect.Invalid:
		e.uint(0)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		refuse("a %s has no content", v.Type())
	default:
		refuse("values of kind %s are not known", kind)
	}
}

// refuse ends the program: values that were not made for a digest would share
// one, and two streams would share rows that are not theirs.
func refuse(format string, of any) {
	panic("digest: " + fmt.Sprintf(format, of)) //nolint:forbidigo // the first test that comes by sees it
}

// entries writes a map in the order of its encoded entries, which begin with
// their keys.
func (e *encoder) entries(v reflect.Value, depth int) {
	all := make([][]byte, 0, v.Len())
	for each := v.MapRange(); each.Next(); {
		one := encoder{}
		one.value(each.Key(), depth+1)
		one.value(each.Value(), depth+1)
		all = append(all, one.out)
	}
	slices.SortFunc(all, bytes.Compare)
	e.uint(uint64(len(all)))
	for _, one := range all {
		e.out = append(e.out, one...)
	}
}
