// Package digest identifies values by their content, so that no cache key or
// plan id is a string concatenated by hand that misses a field.
//
// The caller builds a value for the purpose: a struct of plain data that holds
// everything the identity depends on, and nothing else. Every field counts,
// exported or not; [github.com/penstock/penstock/internal/digest/digesttest]
// changes each of them and requires a different digest.
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

// Of returns the SHA-256 of a value's content as 64 hexadecimal digits. It is
// the same in every process and on every machine.
//
// Supported are booleans, numbers, strings (of any bytes), arrays, slices, maps,
// structs, pointers (by their target) and interfaces (by the name of their
// dynamic type and its content). Values of one type with equal content have the
// same digest. Nil slices and maps equal empty ones, and floats compare by their
// bits. The names of struct fields and struct types do not count, but the order
// of fields does.
//
// Of panics for functions, channels, unsafe pointers and cyclic values.
func Of(v any) string {
	e := encoder{}
	e.value(reflect.ValueOf(v), 0)
	sum := sha256.Sum256(e.out)
	return hex.EncodeToString(sum[:])
}

// maxDepth is how deep values may be nested. Deeper ones are taken for cyclic.
const maxDepth = 100

// encoder writes values in sequence such that no two sequences of values have
// the same bytes: everything of variable length is preceded by its length.
type encoder struct{ out []byte }

func (e *encoder) uint(n uint64) { e.out = binary.AppendUvarint(e.out, n) }

func (e *encoder) text(s string) {
	e.uint(uint64(len(s)))
	e.out = append(e.out, s...)
}

func (e *encoder) value(v reflect.Value, depth int) {
	if depth > maxDepth {
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

// refuse panics: if such values got a digest, different ones could share it, and
// a stream could be served the rows of another.
func refuse(format string, of any) {
	panic("digest: " + fmt.Sprintf(format, of)) //nolint:forbidigo // a bug that any test of the caller finds
}

// entries writes a map, sorted by its encoded entries, which begin with their
// keys.
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
