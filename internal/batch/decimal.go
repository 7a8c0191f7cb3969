package batch

import (
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// decimal is a decimal's unscaled value.
type decimal = decimal128.Num

// maxPowerLong is the exponent of the largest power of ten in 64 bits.
const maxPowerLong = 18

// smallOf returns a decimal's unscaled value, and whether both its absolute value and the scale are
// within the given limits.
func smallOf(v decimal, scale int, maxValue int64, maxPower int) (int64, bool) {
	n := int64(v.LowBits())
	return n, v.HighBits() == n>>63 && -maxValue <= n && n <= maxValue && 0 <= scale && scale <= maxPower
}

func powerOfTen(n int) float64 { return math.Pow10(n) }

// ratOf returns a decimal as an exact fraction.
func ratOf(v decimal, scale int) *big.Rat {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		return new(big.Rat).SetInt(power.Mul(power, v.BigInt()))
	}
	return new(big.Rat).SetFrac(v.BigInt(), power)
}

// singleOf returns the float32 that is nearest to a decimal. It returns false if that float is
// infinite.
func singleOf(v decimal, scale int) (float32, bool) {
	if n, ok := smallOf(v, scale, maxExactSingle, maxPowerSingle); ok {
		return float32(n) / float32(powerOfTen(scale)), true
	}
	f, _ := ratOf(v, scale).Float32()
	return f, !infinite(f)
}

// wholeOf returns a decimal as an integer. It returns false if the decimal has a fraction or does
// not fit in 64 bits.
func wholeOf(v decimal, scale int) (int64, bool) {
	if n, ok := smallOf(v, scale, math.MaxInt64, maxPowerLong); ok {
		power := int64(1)
		for range scale {
			power *= 10
		}
		return n / power, n%power == 0
	}
	r := ratOf(v, scale)
	return r.Num().Int64(), r.IsInt() && r.Num().IsInt64()
}
