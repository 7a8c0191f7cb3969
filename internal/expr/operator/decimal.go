package operator

import (
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// rescale returns a decimal with the scale of a type, rounded half away from zero. It does not fit
// if it has more digits than the precision.
func rescale(v decimal128.Num, scale int32, to *arrow.Decimal128Type) (decimal128.Num, verdict) {
	exact := v.BigInt()
	switch by := int64(to.Scale) - int64(scale); {
	case by > 0:
		exact.Mul(exact, powerOfTen(by))
	case by < 0:
		exact = divideHalfUp(exact, powerOfTen(-by))
	}
	return within(exact, to.Precision)
}

// within returns a number as a decimal, which does not fit if it has more digits than the precision.
func within(exact *big.Int, precision int32) (decimal128.Num, verdict) {
	if exact.CmpAbs(powerOfTen(int64(precision))) >= 0 {
		return decimal128.Num{}, unfit
	}
	return decimal128.FromBigInt(exact), fits
}

func powerOfTen(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// divideHalfUp divides by a positive number and rounds to the nearest integer, half away from zero.
func divideHalfUp(v, by *big.Int) *big.Int {
	quotient, rest := new(big.Int).QuoRem(v, by, new(big.Int))
	if rest.Lsh(rest, 1).CmpAbs(by) >= 0 {
		quotient.Add(quotient, big.NewInt(int64(v.Sign())))
	}
	return quotient
}
