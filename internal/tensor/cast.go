package tensor

import "math"

type whole interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// castable reports whether numbers of one type can be cast to another.
func castable(from, to DType) bool {
	return to == Float16 || to == BFloat16 || to == Float32 || to == Int32 && from.isWhole()
}

// cast converts at most chunkNumbers numbers as torch does: to the nearest, with ties to even, and to 16 bits by way of
// float32. It reports whether all of them fit: an integer does not if int32 lacks it, and a finite number
// does not if it would become infinite.
func cast(dst []byte, to DType, src []byte, from DType) bool {
	switch from {
	case Bool, Uint8:
		return castWhole[uint8](dst, to, src)
	case Int8:
		return castWhole[int8](dst, to, src)
	case Int16:
		return castWhole[int16](dst, to, src)
	case Int32:
		return castWhole[int32](dst, to, src)
	case Int64:
		return castWhole[int64](dst, to, src)
	case Uint16:
		return castWhole[uint16](dst, to, src)
	case Uint32:
		return castWhole[uint32](dst, to, src)
	case Uint64:
		return castWhole[uint64](dst, to, src)
	case Float16, BFloat16:
		return castHalf(dst, to, as[uint16](src), from)
	case Float32:
		return castSingle(dst, to, as[float32](src))
	case Float64:
		wide := as[float64](src)
		return castNumbers(dst, to, wide) && fitFloat32(wide)
	default:
		return false
	}
}

func castWhole[S whole](dst []byte, to DType, src []byte) bool {
	values := as[S](src)
	if to != Int32 {
		return castNumbers(dst, to, values)
	}
	fits := true
	for i, out := 0, as[int32](dst); i < len(values); i++ {
		value := values[i]
		out[i] = int32(value)
		fits = fits && S(out[i]) == value && (out[i] < 0) == (value < 0)
	}
	return fits
}

// castNumbers converts numbers to floats.
func castNumbers[S whole | float64](dst []byte, to DType, values []S) bool {
	var chunk [chunkNumbers]float32
	singles := chunk[:len(values)]
	if to == Float32 {
		singles = as[float32](dst)
	}
	for i, value := range values {
		singles[i] = float32(value)
	}
	return to == Float32 || castSingle(dst, to, singles)
}

// castHalf converts numbers of 16 bits.
func castHalf(dst []byte, to DType, values []uint16, from DType) bool {
	var chunk [chunkNumbers]float32
	singles := chunk[:len(values)]
	for i, value := range values {
		if from == Float16 {
			singles[i] = widenHalf(value)
		} else {
			singles[i] = math.Float32frombits(uint32(value) << 16)
		}
	}
	return castSingle(dst, to, singles)
}

// castSingle converts float32 to floats.
func castSingle(dst []byte, to DType, values []float32) bool {
	const magnitude, infinite = 0x7fff, 0x7f800000
	fits := true
	switch out := as[uint16](dst); to { //nolint:exhaustive // see castable
	case Float16:
		for i, value := range values {
			out[i] = narrowHalf(value)
			fits = fits && (out[i]&magnitude != 0x7c00 || math.Float32bits(value)&infinite == infinite)
		}
	case BFloat16:
		for i, value := range values {
			out[i] = narrowBrain(value)
			fits = fits && (out[i]&magnitude != 0x7f80 || math.Float32bits(value)&infinite == infinite)
		}
	default:
		copy(as[float32](dst), values)
	}
	return fits
}

// fitFloat32 reports whether all finite numbers are finite as float32.
func fitFloat32(values []float64) bool {
	fits := true
	for _, value := range values {
		fits = fits && (!math.IsInf(float64(float32(value)), 0) || math.IsInf(value, 0))
	}
	return fits
}

// narrowBrain returns the bits of the nearest bfloat16, ties to even.
func narrowBrain(value float32) uint16 {
	bits := math.Float32bits(value)
	if value != value {
		return uint16(bits>>16) | 0x40 // a NaN must not become infinite
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// narrowHalf returns the bits of the nearest float16, ties to even.
func narrowHalf(value float32) uint16 {
	bits := math.Float32bits(value)
	sign, magnitude := uint16(bits>>16)&0x8000, bits&0x7fffffff
	switch {
	case magnitude-0x38800000 < 0x477ff000-0x38800000: // the normal range
		magnitude -= (127 - 15) << 23
		return sign | uint16((magnitude+0xfff+magnitude>>13&1)>>13)
	case magnitude > 0x7f800000: // a NaN
		return sign | 0x7e00 | uint16(magnitude>>13)&0x3ff
	case magnitude >= 0x477ff000: // 65520 and more round to infinity
		return sign | 0x7c00
	default: // the sum has the unit of subnormal float16 as its last place, so it rounds there
		const unit = 0.5
		sum := math.Float32frombits(magnitude) + unit
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(unit))
	}
}

// widenHalf returns the value of a float16.
func widenHalf(half uint16) float32 {
	sign, exponent, fraction := uint32(half&0x8000)<<16, uint32(half>>10&0x1f), uint32(half&0x3ff)
	switch exponent {
	case 0:
		magnitude := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(magnitude) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	default:
		return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
	}
}
