package batch

import (
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// decimal is a decimal's unscaled value.
type decimal = decimal128.Num

// exactPowerLong is the highest power of ten of 64 bits.
const exactPowerLong = 18

// smallOf returns a decimal's unscaled value if it and the power of ten that
// divides it do not exceed what a float holds exactly.
func smallOf(v decimal, scale int, most int64, power int) (int64, bool) {
	n := int64(v.LowBits())
	return n, v.HighBits() == n>>63 && -most <= n && n <= most && 0 <= scale && scale <= power
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

// singleOf returns the float32 that is nearest to a decimal, if there is one.
func singleOf(v decimal, scale int) (float32, bool) {
	if n, ok := smallOf(v, scale, exactSingle, exactPowerSingle); ok {
		return float32(n) / float32(powerOfTen(scale)), true
	}
	f, _ := ratOf(v, scale).Float32()
	return f, !infinite(f)
}

// wholeOf returns a decimal that is a whole number of 64 bits.
func wholeOf(v decimal, scale int) (int64, bool) {
	if n, ok := smallOf(v, scale, math.MaxInt64, exactPowerLong); ok {
		power := int64(1)
		for range scale {
			power *= 10
		}
		return n / power, n%power == 0
	}
	r := ratOf(v, scale)
	return r.Num().Int64(), r.IsInt() && r.Num().IsInt64()
}
