package tensor

import (
	"unsafe"

	"github.com/penstock/penstock/internal/fault"
)

// DType is the type of a tensor's elements.
type DType uint8

// The types of elements. All are little-endian. A boolean takes a byte, 0 or 1.
const (
	Bool DType = iota + 1
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
)

// dtypes describes each type by its value.
var dtypes = [...]struct { //nolint:gochecknoglobals // a constant table; Go has no constant arrays
	word string
	size int
}{
	Bool: {"bool", 1}, Int8: {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Uint8: {"uint8", 1}, Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
	Float16: {"float16", 2}, BFloat16: {"bfloat16", 2}, Float32: {"float32", 4}, Float64: {"float64", 8},
}

// String returns the word for the type, which is the name of the type in torch.
func (d DType) String() string { return dtypes[d].word }

// Size returns the bytes of an element.
func (d DType) Size() int { return dtypes[d].size }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DType) UnmarshalText(text []byte) error {
	for i, known := range dtypes {
		if i > 0 && known.word == string(text) {
			*d = DType(i)
			return nil
		}
	}
	return unknown("a dtype", text)
}

// isWhole reports whether elements are integers or booleans.
func (d DType) isWhole() bool { return d >= Bool && d <= Uint64 }

func unknown(what string, text []byte) error {
	return fault.New(fault.Invalid, "%q is not %s of tensor plans", text, what).
		WithRemedy("use the client package of the server's version")
}

// as returns a view of values as values of another type, both without pointers. The memory must be
// aligned for the type. A remainder that is shorter than a value is left out.
func as[T, S any](values []S) []T {
	var t T
	var s S
	bytes := len(values) * int(unsafe.Sizeof(s))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(values))), bytes/int(unsafe.Sizeof(t)))
}
