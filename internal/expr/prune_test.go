package expr

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func within(lower, upper Value) Range {
	return Range{Lower: lower, Upper: upper, HasLower: true, HasUpper: true, Nulls: Unknown, Rows: Unknown}
}

func TestMayMatch(t *testing.T) {
	ints := within(Int(10), Int(20))
	floats := within(Float(1), Float(2))
	noNaN := floats
	noNaN.NoNaN = true
	oneFloat := within(Float(1), Float(1))
	texts := within(Text("b"), Text("d")) // truncated from "bat" and "cow"; the upper bound is incremented
	onlyLower := Range{Lower: Int(10), HasLower: true, Nulls: Unknown, Rows: Unknown}
	swapped := within(Int(20), Int(10))
	days := within(Int(0), Int(1))
	cents := within(Decimal(big.NewInt(150), 2), Decimal(big.NewInt(2), 0))
	someNull := Range{Nulls: 1, Rows: 2}
	for _, c := range []struct {
		text  string
		r     Range
		match bool
	}{
		{"l = 9", ints, false},
		{"l = 10", ints, true},
		{"l = 20", ints, true},
		{"l = 21", ints, false},
		{"l < 10", ints, false},
		{"l < 11", ints, true},
		{"l <= 9", ints, false},
		{"l <= 10", ints, true},
		{"l > 20", ints, false},
		{"l > 19", ints, true},
		{"l >= 21", ints, false},
		{"l >= 20", ints, true},
		{"l <> 15", ints, true},
		{"l IN (1, 9, 21)", ints, false},
		{"l IN (1, 15)", ints, true},
		{"l NOT IN (1, 15)", ints, true},
		{"l BETWEEN 1 AND 9", ints, false},
		{"l NOT BETWEEN 10 AND 20", ints, false},
		{"NOT (l >= 10 AND l <= 20)", ints, false},
		{"l < 5 OR l > 30", ints, false},
		{"l < 5 OR l > 15", ints, true},
		{"l < 10", swapped, true},
		{"l < 10", onlyLower, false},
		{"l > 1000", onlyLower, true},
		{"l = 1.5", ints, false},
		{"l IS NULL", ints, true},
		{"l < i", ints, true},
		{"l = 9", within(Text("a"), Text("b")), true},
		{"l = 9", Unbounded(5), true},
		{"l = 9", Range{Nulls: Unknown}, false}, // no rows

		{"l IS NULL", Constant(Int(1), 5), false},
		{"l <> 1", Constant(Int(1), 5), false},
		{"l <> 2", Constant(Int(1), 5), true},
		{"l NOT IN (1, 2)", Constant(Int(1), 5), false},
		{"l NOT IN (2, 3)", Constant(Int(1), 5), true},
		{"l = 1", Constant(Value{}, 5), false},
		{"l IS NULL", Constant(Value{}, 5), true},
		{"l IS NOT NULL", Constant(Value{}, 5), false},
		{"l < i", Constant(Value{}, 5), false},
		{"l IS NULL", Constant(Value{}, Unknown), true},
		{"l IS NOT NULL", Constant(Value{}, Unknown), true},
		{"l IS NULL", someNull, true},
		{"l IS NOT NULL", someNull, true},

		{"g > 2", floats, true}, // there may be NaN
		{"g > 2", noNaN, false},
		{"g >= 1e400", floats, true},
		{"g >= 1e400", noNaN, false},
		{"g = 3", floats, false},
		{"g < 1", floats, false},
		{"g IN (0, 3)", floats, false},
		{"g <> 1", oneFloat, true},
		{"g NOT IN (1, 2)", oneFloat, true},
		{"g < 0", within(Float(math.NaN()), Float(5)), true},
		{"g < 0", within(Float(math.Copysign(0, -1)), Float(5)), false},
		{"g <= 0", within(Float(0), Float(5)), true},
		{"f = 0.1", within(Float(float64(float32(0.1))), Float(1)), true},

		{"s = 'cow'", texts, true},
		{"s = 'bat'", texts, true},
		{"s = 'dab'", texts, false},
		{"s < 'b'", texts, false},
		{"s > 'cz'", texts, true},
		{"s > 'd'", texts, false},
		{"s LIKE 'a%'", texts, false},
		{"s LIKE 'b%'", texts, true},
		{"s LIKE 'ba%'", texts, true},
		{"s LIKE 'c%'", texts, true},
		{"s LIKE 'd%'", texts, true},
		{"s LIKE 'da%'", texts, false},
		{"s LIKE 'e%'", texts, false},
		{"s LIKE 'b%'", within(Text("bb"), Text("c")), true},
		{"s LIKE 'ba%'", within(Text("bb"), Text("c")), false},
		{"s NOT LIKE 'b%'", texts, true},
		{"s NOT LIKE 'b%'", within(Text("ba"), Text("bz")), false},
		{"s NOT LIKE 'b%'", within(Text("ba"), Text("c")), true},
		{"s NOT LIKE 'b%'", within(Text("bz"), Text("ba")), true},
		{"s LIKE 'x%'", within(Text("d"), Text("b")), true},
		{"s LIKE 'a%x'", texts, false},
		{"s LIKE 'c_'", texts, true},
		{"s LIKE 'e_%'", texts, false},
		{"s LIKE '%a'", texts, true},
		{"s NOT LIKE 'b_%'", within(Text("ba"), Text("bz")), true},
		{"s LIKE 'b%'", Constant(Text("c"), 5), false},
		{"s NOT LIKE 'c%'", Constant(Text("cat"), 5), false},
		{"s NOT LIKE 'c%'", Constant(Value{}, 5), false},
		{"s LIKE 'c%'", Unbounded(5), true},
		{"s LIKE 'c%'", within(Int(1), Int(2)), true},
		{"x = X'00'", within(Bytes([]byte{1}), Bytes([]byte{2})), false},
		{"x = X'0100'", within(Bytes([]byte{1}), Bytes([]byte{2})), true},

		{"b", within(Bool(false), Bool(false)), false},
		{"NOT b", within(Bool(false), Bool(false)), true},
		{"b", within(Bool(false), Bool(true)), true},

		{"n < 1.5", cents, false},
		{"n <= 1.5", cents, true},
		{"n > 2", cents, false},
		{"n = 1.75", cents, true},

		{"d = DATE '1970-01-02'", days, true},
		{"d = DATE '1970-01-03'", days, false},
		{"t < TIME '00:00:01'", within(Int(1_000_000), Int(2_000_000)), false},
		{"q > TIMESTAMP '1970-01-01 00:00:02'", within(Int(1_000_000), Int(2_000_000)), false},
		{"q >= TIMESTAMP '1970-01-01 00:00:02'", within(Int(1_000_000), Int(2_000_000)), true},
		{"r >= '1970-01-01 00:00:00.000002999'", within(Int(1), Int(2)), true},
		{"r >= '1970-01-01 00:00:00.000003'", within(Int(1), Int(2)), false},
		{"r <= '1970-01-01 00:00:00.000000001'", within(Int(1), Int(2)), true},
		{"r <= '1970-01-01 00:00:00'", within(Int(1), Int(2)), false},
		{"r < '1700-01-01'", within(Int(math.MinInt64), Int(math.MaxInt64)), true},
		{"r > '2200-01-01'", within(Int(math.MinInt64), Int(math.MaxInt64)), true},
		{"TRUE", ints, true},
		{"FALSE", ints, false},
	} {
		f := bind(t, c.text, everyType())
		got := f.MayMatch(func(column string) (Range, bool) { return c.r, column != "i" })
		require.Equal(t, c.match, got, "%s with %+v", c.text, c.r)
		unknown := f.MayMatch(func(string) (Range, bool) { return Range{}, false })
		require.Equal(t, f.String() != "FALSE", unknown, "%s with nothing known", c.text)
	}
	var all *Filter
	require.True(t, all.MayMatch(nil))
}

// TestMayHold: only equality and IN exclude rows, and all terms of AND must hold.
func TestMayHold(t *testing.T) {
	for text, c := range map[string]struct {
		asked []string
		may   bool
	}{
		"l = 1":                               {[]string{"l [1]"}, false},
		"l = 7":                               {[]string{"l [7]"}, true},
		"l IN (3, 1)":                         {[]string{"l [1 3]"}, false},
		"l IN (7, 1)":                         {[]string{"l [1 7]"}, true},
		"l = 7 AND i = 1":                     {[]string{"i [1]"}, false},
		"l = 1 OR i = 7":                      {[]string{"i [7]"}, true},
		"l = 1 OR i = 1":                      {[]string{"i [1]", "l [1]"}, false},
		"l = 1 OR i > 1 AND i = 1":            {[]string{"i [1]", "l [1]"}, false},
		"l = 1 OR i > 1":                      {nil, true},
		"l <> 1":                              {nil, true},
		"l NOT IN (1, 2)":                     {nil, true},
		"NOT l = 1":                           {nil, true},
		"NOT (l <> 1 OR i <> 7)":              {[]string{"i [7]", "l [1]"}, false},
		"l > 1":                               {nil, true},
		"l BETWEEN 1 AND 2":                   {nil, true},
		"l IS NULL":                           {nil, true},
		"l = i":                               {nil, true},
		"s LIKE 'a%'":                         {nil, true},
		"s = 'a'":                             {[]string{`s ["a"]`}, false},
		"d = DATE '1970-01-02'":               {[]string{"d [1]"}, false},
		"r = '1970-01-01 00:00:00.000000009'": {[]string{"r [9]"}, false},
		"n = 1.5":                             {[]string{"n [15e-1]"}, false},
		"TRUE":                                {nil, true},
		"FALSE":                               {nil, false},
	} {
		var asked []string
		may := bind(t, text, everyType()).MayHold(func(column string, values []Value) bool {
			asked = append(asked, fmt.Sprintf("%s %v", column, values))
			return slices.ContainsFunc(values, func(v Value) bool { n, ok := v.Integer(); return ok && n == 7 })
		})
		require.Equal(t, c.may, may, text)
		for _, a := range asked {
			require.Contains(t, c.asked, a, text)
		}
		require.Equal(t, c.asked == nil, asked == nil, text)
	}
	var all *Filter
	require.True(t, all.MayHold(nil))
	units, ok := Decimal(big.NewInt(15), 1).Unscaled(3)
	require.True(t, ok)
	require.Equal(t, int64(1500), units.Int64())
	for _, v := range []Value{Int(1), Decimal(big.NewInt(15), 1)} {
		_, ok = v.Unscaled(0)
		require.False(t, ok)
	}
	text, ok := Bytes([]byte{1}).Text()
	require.Equal(t, "\x01", text)
	require.True(t, ok)
	_, ok = Int(1).Text()
	require.False(t, ok)
}

func TestValuesAreCopies(t *testing.T) {
	raw, unscaled := []byte{1}, big.NewInt(5)
	bytes, decimal := Bytes(raw), Decimal(unscaled, 1)
	raw[0] = 9
	unscaled.SetInt64(9)
	order, ok := bytes.compare(Text("\x01"))
	require.True(t, ok)
	require.Zero(t, order)
	order, ok = decimal.compare(Decimal(big.NewInt(50), 2))
	require.True(t, ok)
	require.Zero(t, order)
	require.Equal(t, Value{}, Decimal(nil, 0))
	_, ok = Int(1).compare(Float(1))
	require.False(t, ok)
}
