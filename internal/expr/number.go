package expr

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Limits of a number literal: its digits, and the exponent of its first digit. They
// are far beyond every column type and bound the cost of hostile text.
const (
	maxDigits   = 1000
	maxExponent = 1000
)

// number is an exact decimal: unscaled × 10^-scale. It is normalized: it has no
// trailing zeros, and zero has scale 0.
type number struct {
	unscaled *big.Int
	scale    int
}

// newNumber returns unscaled × 10^-scale, normalized.
func newNumber(unscaled *big.Int, scale int) number {
	if unscaled.Sign() == 0 {
		return number{unscaled: new(big.Int)}
	}
	digits := unscaled.Text(10)
	kept := strings.TrimRight(digits, "0")
	if zeros := len(digits) - len(kept); zeros > 0 {
		unscaled = new(big.Int).Quo(unscaled, powerOfTen(zeros))
		scale -= zeros
	}
	return number{unscaled: unscaled, scale: scale}
}

// parseNumber parses an unsigned numeral as the scanner emits it.
func parseNumber(numeral string) (number, error) {
	mantissa, exponentText, hasExponent := strings.Cut(strings.ToLower(numeral), "e")
	exponent := 0
	if hasExponent {
		var err error
		if exponent, err = strconv.Atoi(exponentText); err != nil || exponent < -100*maxExponent || exponent > 100*maxExponent {
			return number{}, fmt.Errorf("the exponent of %s is too large", shorten(numeral))
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	significant := strings.Trim(whole+fraction, "0")
	if len(significant) > maxDigits {
		return number{}, fmt.Errorf("the number %s has more than %d digits", shorten(numeral), maxDigits)
	}
	if significant == "" {
		return number{unscaled: new(big.Int)}, nil
	}
	// Each trailing zero that Trim removed is a power of ten.
	all := strings.TrimLeft(whole+fraction, "0")
	scale := len(fraction) - exponent - (len(all) - len(significant))
	unscaled, ok := new(big.Int).SetString(significant, 10)
	if !ok {
		return number{}, fmt.Errorf("%s is not a number", shorten(numeral))
	}
	n := number{unscaled: unscaled, scale: scale}
	if e := n.exponent(); e < -maxExponent || e > maxExponent {
		return number{}, fmt.Errorf("the exponent of %s is too large", shorten(numeral))
	}
	return n, nil
}

// maxShown is the number of bytes of a text that a message shows.
const maxShown = 40

// shorten truncates a text for a message.
func shorten(s string) string { return fault.Printable(s, maxShown) }

// negated returns -n.
func (n number) negated() number {
	return number{unscaled: new(big.Int).Neg(n.unscaled), scale: n.scale}
}

// exponent returns the exponent of the first digit.
func (n number) exponent() int {
	return len(new(big.Int).Abs(n.unscaled).Text(10)) - 1 - n.scale
}

// text returns the number's canonical text, which parseNumber parses: a plain decimal
// if that is short, otherwise with an exponent.
func (n number) text() string {
	digits := new(big.Int).Abs(n.unscaled).Text(10)
	exponent := len(digits) - 1 - n.scale
	var b strings.Builder
	if n.unscaled.Sign() < 0 {
		b.WriteByte('-')
	}
	switch {
	case exponent < -7 || exponent > 40:
		return n.scientific()
	case n.scale <= 0:
		b.WriteString(digits + strings.Repeat("0", -n.scale))
	case exponent >= 0:
		b.WriteString(digits[:exponent+1] + "." + digits[exponent+1:])
	default:
		b.WriteString("0." + strings.Repeat("0", -exponent-1) + digits)
	}
	return b.String()
}

// scientific returns the number's text with an exponent.
func (n number) scientific() string {
	digits := new(big.Int).Abs(n.unscaled).Text(10)
	var b strings.Builder
	if n.unscaled.Sign() < 0 {
		b.WriteByte('-')
	}
	b.WriteString(digits[:1])
	if len(digits) > 1 {
		b.WriteString("." + digits[1:])
	}
	fmt.Fprintf(&b, "E%+d", len(digits)-1-n.scale)
	return b.String()
}

// floor returns n in units of 10^-scale, rounded down, and whether that is exact.
func (n number) floor(scale int) (units *big.Int, exact bool) {
	if scale >= n.scale {
		return new(big.Int).Mul(n.unscaled, powerOfTen(scale-n.scale)), true
	}
	// Euclidean division by a positive divisor rounds down.
	units, rest := new(big.Int).DivMod(n.unscaled, powerOfTen(n.scale-scale), new(big.Int))
	return units, rest.Sign() == 0
}

// float returns the nearest float with the given number of bits; an infinity if n is
// beyond the largest finite float. Zero is never negative.
func (n number) float(bits int) float64 {
	// The only possible error is ErrRange, for which the value is ±Inf.
	f, _ := strconv.ParseFloat(n.text(), bits)
	if f == 0 {
		return 0
	}
	return f
}

func powerOfTen(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
