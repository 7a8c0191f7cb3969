package write

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
