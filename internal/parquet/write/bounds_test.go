package write

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// TestTextBounds cuts texts between code points, and rounds upper bounds up to a text.
//
// spec: file-7
func TestTextBounds(t *testing.T) {
	t.Parallel()
	const most = "\U0010ffff"
	long := strings.Repeat("é", 15)
	for name, c := range map[string]struct {
		values       []string
		lower, upper string // upper "none": there is none
	}{
		"short":                      {[]string{"b", "a", "c"}, "a", "c"},
		"empty":                      {[]string{""}, "", ""},
		"exactly as long":            {[]string{long + "x"}, long + "x", long + "x"},
		"longer":                     {[]string{long + "xy"}, long + "x", long + "y"},
		"a shorter one after longer": {[]string{long + "xy", long + "x"}, long + "x", long + "y"},
		"longer after an equal one":  {[]string{long + "x", long + "xy"}, long + "x", long + "y"},
		"longer, but not the last":   {[]string{long + "xy", "ü"}, long + "x", "ü"},
		"no next code point":         {[]string{long + most + "a"}, long + most, strings.Repeat("é", 14) + "ê"},
		"no next text":               {[]string{strings.Repeat(most, 17)}, strings.Repeat(most, 16), "none"},
		"before the surrogates":      {[]string{long + "\ud7ffa"}, long + "\ud7ff", long + "\ue000"},
	} {
		b := &byteBounds{cut: cutText, next: nextText, text: true}
		for _, v := range c.values {
			b.addValue([]byte(v))
		}
		require.Equal(t, c.lower, string(b.lower()), name)
		if c.upper == "none" {
			require.Nil(t, b.upper(), name)
		} else {
			require.Equal(t, c.upper, string(b.upper()), name)
			require.NotNil(t, b.upper(), name)
		}
	}
}

// TestBinaryBounds rounds upper bounds of bytes up.
//
// spec: file-7
func TestBinaryBounds(t *testing.T) {
	t.Parallel()
	b := &byteBounds{cut: cutBytes, next: nextBytes}
	require.Nil(t, b.lower())
	require.Nil(t, b.upper())
	b.addValue([]byte(strings.Repeat("a", 15) + "\xffz"))
	require.Equal(t, strings.Repeat("a", 14)+"b", string(b.upper()))
	b.addValue([]byte(strings.Repeat("\xff", 16)))
	require.Equal(t, strings.Repeat("\xff", 16), string(b.upper()))
	b.addValue([]byte(strings.Repeat("\xff", 17)))
	require.Nil(t, b.upper())
	require.Equal(t, strings.Repeat("a", 15)+"\xff", string(b.lower()))
}

// TestFloatBounds leaves NaN out, and has both zeros.
//
// spec: file-8
func TestFloatBounds(t *testing.T) {
	t.Parallel()
	const negativeZero, zero, one = "0000000000000080", "0000000000000000", "000000000000f03f"
	for name, c := range map[string]struct {
		values       []float64
		nans         int64
		lower, upper string
	}{
		"none":                {nil, 0, "", ""},
		"NaN only":            {[]float64{math.NaN(), math.NaN()}, 2, "", ""},
		"NaN first":           {[]float64{math.NaN(), 1}, 1, one, one},
		"NaN last":            {[]float64{1, math.NaN()}, 1, one, one},
		"zero":                {[]float64{0}, 0, negativeZero, zero},
		"negative zero":       {[]float64{math.Copysign(0, -1)}, 0, negativeZero, zero},
		"zero is the minimum": {[]float64{1, 0}, 0, negativeZero, one},
	} {
		b := &floatBounds[float64]{}
		values := array.NewFloat64Builder(memory.DefaultAllocator)
		values.AppendNull()
		values.AppendValues(c.values, nil)
		require.NoError(t, b.add(values.NewArray()), name)
		require.Equal(t, c.nans, b.nans(), name)
		require.Equal(t, []string{c.lower, c.upper}, []string{hex.EncodeToString(b.lower()), hex.EncodeToString(b.upper())}, name)
	}
}

// TestDecimalBounds has the shortest two's complement, and refuses more digits than the type has.
//
// spec: file-7, file-10
func TestDecimalBounds(t *testing.T) {
	t.Parallel()
	bounds := func(precision int32, numbers ...decimal128.Num) (*decimalBounds, error) {
		b := &decimalBounds{precision: precision}
		values := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: precision})
		for _, v := range numbers {
			values.Append(v)
		}
		return b, b.add(values.NewArray())
	}
	for number, want := range map[int64]string{
		0: "00", 1: "01", -1: "ff", 127: "7f", 128: "0080", -128: "80", -129: "ff7f", 255: "00ff", 256: "0100", -256: "ff00", -32769: "ff7fff",
		math.MaxInt64: "7fffffffffffffff", math.MinInt64: "8000000000000000",
	} {
		b, err := bounds(38, decimal128.FromI64(number))
		require.NoError(t, err)
		require.Equal(t, []string{want, want}, []string{hex.EncodeToString(b.lower()), hex.EncodeToString(b.upper())}, "%d", number)
	}
	b, err := bounds(20, decimal128.New(-1, 0), decimal128.FromI64(7), decimal128.New(1, 5))
	require.NoError(t, err)
	require.Equal(t, []string{"ff0000000000000000", "010000000000000005"}, []string{hex.EncodeToString(b.lower()), hex.EncodeToString(b.upper())})
	for _, v := range []decimal128.Num{decimal128.FromI64(100), decimal128.FromI64(-100), decimal128.New(math.MinInt64, 0)} {
		_, err := bounds(2, decimal128.FromI64(1), v)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}
