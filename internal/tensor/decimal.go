package tensor

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

// unscaled reads decimals of at most 18 digits as integers in units of the last digit.
type unscaled struct {
	bytes []byte
	width int
	nulls validity
	found *findings
}

func (u unscaled) read(dst []byte, from int) {
	out := as[int64](dst)
	src := u.bytes[from*u.width:]
	if u.width == 4 {
		for i, value := range as[int32](src)[:len(out)] {
			out[i] = int64(value)
		}
		return
	}
	words := as[int64](src)
	per := u.width / 8
	for i := range out {
		value := words[i*per : (i+1)*per]
		out[i] = value[0]
		for _, upper := range value[1:] {
			if upper != value[0]>>63 && !u.nulls.isNull(from+i) {
				u.found.tooWide = true
			}
		}
	}
}

// nearest reads decimals as the nearest float, ties to even.
type nearest struct {
	bytes  []byte
	width  int
	scale  int
	narrow bool // float32
	nulls  validity
}

// Up to these limits, integers and powers of ten are exact in a float64, and a product or quotient rounds once.
const (
	exactInteger = 1 << 53
	exactPower   = 22
)

func (n nearest) read(dst []byte, from int) {
	size := 8
	if n.narrow {
		size = 4
	}
	power := math.Pow10(min(max(n.scale, -n.scale), exactPower))
	for i := range len(dst) / size {
		at := dst[i*size:]
		if n.nulls.isNull(from + i) {
			clear(at[:size])
			continue
		}
		digits := n.digits(from + i)
		value, small := digits.float()
		switch {
		case !small || max(n.scale, -n.scale) > exactPower:
			value = digits.parse(n.scale, 8*size)
		case n.scale >= 0:
			value /= power
		default:
			value *= power
		}
		if !n.narrow {
			binary.LittleEndian.PutUint64(at, math.Float64bits(value))
			continue
		}
		if mayRoundTwice(value) {
			value = digits.parse(n.scale, 32)
		}
		binary.LittleEndian.PutUint32(at, math.Float32bits(float32(value)))
	}
}

// mayRoundTwice reports whether rounding a rounded number again, to a float32, may differ from
// rounding once: if it is exactly between two float32, or outside of their normal range.
func mayRoundTwice(value float64) bool {
	const lacking, half = 1<<29 - 1, 1 << 28 // the bits that a float32 lacks, and the highest of them
	magnitude := math.Abs(value)
	return math.Float64bits(value)&lacking == half || magnitude > math.MaxFloat32 || magnitude < 0x1p-126 && value != 0
}

// wide is an integer of 256 bits in two's complement, lowest word first.
type wide [4]uint64

func (n nearest) digits(i int) wide {
	b := n.bytes[i*n.width:][:n.width]
	if n.width == 4 {
		value := int64(int32(binary.LittleEndian.Uint32(b)))
		return wide{uint64(value), uint64(value >> 63), uint64(value >> 63), uint64(value >> 63)}
	}
	sign := uint64(int64(binary.LittleEndian.Uint64(b[n.width-8:])) >> 63)
	out := wide{sign, sign, sign, sign}
	for word := range n.width / 8 {
		out[word] = binary.LittleEndian.Uint64(b[8*word:])
	}
	return out
}

// float returns the number as a float64, and whether it is exact.
func (w wide) float() (float64, bool) {
	low := int64(w[0])
	sign := uint64(low >> 63)
	small := w[1] == sign && w[2] == sign && w[3] == sign && low >= -exactInteger && low <= exactInteger
	return float64(low), small
}

// parse returns the nearest float of a size in bits to the number divided by a power of ten; infinite if it is too large.
func (w wide) parse(scale, bitSize int) float64 {
	var text [100]byte // a sign, 78 digits and an exponent
	digits := w.appendTo(text[:0])
	digits = append(digits, 'e')
	digits = strconv.AppendInt(digits, int64(-scale), 10)
	// The only error is a number that is too large: the result is then infinite.
	value, _ := strconv.ParseFloat(unsafe.String(unsafe.SliceData(digits), len(digits)), bitSize)
	return value
}

// appendTo appends the number in base ten.
func (w wide) appendTo(dst []byte) []byte {
	if int64(w[3]) < 0 {
		dst = append(dst, '-')
		carry := uint64(1)
		for i := range w {
			w[i], carry = bits.Add64(^w[i], 0, carry)
		}
	}
	const group, base = 19, 10_000_000_000_000_000_000 // digits of a word
	var groups [5]uint64
	count := 0
	for w != (wide{}) || count == 0 {
		var rest uint64
		for i := len(w) - 1; i >= 0; i-- {
			w[i], rest = bits.Div64(rest, w[i], base)
		}
		groups[count] = rest
		count++
	}
	dst = strconv.AppendUint(dst, groups[count-1], 10)
	for i := count - 2; i >= 0; i-- {
		var padded [group]byte
		for at, rest := group-1, groups[i]; at >= 0; at-- {
			padded[at], rest = byte('0'+rest%10), rest/10
		}
		dst = append(dst, padded[:]...)
	}
	return dst
}
