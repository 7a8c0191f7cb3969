package tensor

import (
	"unsafe"

	"github.com/penstock/penstock/internal/invariant"
)

// coreBytes is the number of bytes to be copied for which it is worthwhile to wake a core.
const coreBytes = 128 << 10

// dividedBytes returns coreBytes, or less in invariant builds, so that small tests divide their copies.
func dividedBytes() int {
	if invariant.On {
		return coreBytes >> 11
	}
	return coreBytes
}

// divided calls do for ranges of rows, of about a number of bytes each, on idle cores too.
func (f filling) divided(rows, bytes int, do func(first, end int)) {
	most := max(1, dividedBytes()/max(1, bytes))
	parts := (rows + most - 1) / most
	_ = f.on.Each(parts, func(i int) error { // do does not fail
		do(i*most, min(rows, (i+1)*most))
		return nil
	})
}

// copy copies memory, on idle cores too.
func (f filling) copy(dst, src []byte) {
	f.divided(len(dst), 1, func(first, end int) { copy(dst[first:end], src[first:end]) })
}

// gatherRows copies rows of a width in bytes to rows that are a stride apart.
func gatherRows(dst []byte, stride int, src []byte, width int, rows []int32) {
	switch elementBytes(width, stride) {
	case 1:
		gatherElements(dst, stride, src, rows)
	case 2:
		gatherElements(dst, stride, as[uint16](src), rows)
	case 4:
		gatherElements(dst, stride, as[uint32](src), rows)
	case 8:
		gatherElements(dst, stride, as[uint64](src), rows)
	default:
		for i, row := range rows {
			copy(dst[i*stride:][:width], src[int(row)*width:])
		}
	}
}

// gatherElements copies one element per row. The stride is a multiple of their size.
func gatherElements[T uint8 | uint16 | uint32 | uint64](dst []byte, stride int, src []T, rows []int32) {
	var t T
	out, step := as[T](dst), stride/int(unsafe.Sizeof(t))
	if step == 1 {
		out = out[:len(rows)]
		for i, row := range rows {
			out[i] = src[row]
		}
		return
	}
	for i, row := range rows {
		out[i*step] = src[row]
	}
}

// scatter copies parts of rows, of a width in bytes, to rows that are a stride apart.
func scatter(dst []byte, stride int, src []byte, width int) {
	switch elementBytes(width, stride) {
	case 2:
		scatterElements(dst, stride, as[uint16](src))
	case 4:
		scatterElements(dst, stride, as[uint32](src))
	case 8:
		scatterElements(dst, stride, as[uint64](src))
	default:
		for ; len(src) > 0; src = src[width:] {
			copy(dst, src[:width])
			dst = dst[min(stride, len(dst)):]
		}
	}
}

// elementBytes returns the width of rows, if they can be copied as one element each; otherwise 0. Lists in a matrix
// can have the width of an element, and a stride that is not a multiple of it.
func elementBytes(width, stride int) int {
	if stride%width != 0 {
		return 0
	}
	return width
}

// scatterElements copies one element per row. The stride is a multiple of their size.
func scatterElements[T uint16 | uint32 | uint64](dst []byte, stride int, src []T) {
	var t T
	out, step := as[T](dst), stride/int(unsafe.Sizeof(t))
	for i, element := range src {
		out[i*step] = element
	}
}

// copyElements copies one element or several; a call of copy takes longer than one element.
func copyElements(dst, src []byte) {
	switch len(src) {
	case 4:
		*(*[4]byte)(dst) = *(*[4]byte)(src)
	case 2:
		*(*[2]byte)(dst) = *(*[2]byte)(src)
	case 8:
		*(*[8]byte)(dst) = *(*[8]byte)(src)
	default:
		copy(dst, src)
	}
}
