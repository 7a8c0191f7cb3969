package fault_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestFieldPath(t *testing.T) {
	t.Parallel()
	for want, of := range map[string][2]string{
		"training":                             {"", "training"},
		"staging.uid":                          {"staging", "uid"},
		`key["a.b"]`:                           {"key", "a.b"},
		`key[""]`:                              {"key", ""},
		`["a b"]`:                              {"", "a b"},
		`key["\x7f"]`:                          {"key", "\x7f"},
		`key["a[0]"]`:                          {"key", "a[0]"},
		`key["say\""]`:                         {"key", `say"`},
		"key.größe":                            {"key", "größe"},
		"key." + strings.Repeat("x", 64) + "…": {"key", strings.Repeat("x", 65)},
	} {
		require.Equal(t, want, fault.FieldPath(of[0], of[1]))
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", fault.Shorten("abc", 3))
	require.Equal(t, "ab…", fault.Shorten("abc", 2))
	require.Equal(t, "é…", fault.Shorten("éé", 3), "a rune is not cut")
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]string{
		"a é 日":       "a é 日",
		`a\nb`:        "a\nb",
		`\x1b[31m`:    "\x1b[31m",
		`\xff`:        "\xff",
		"\uFFFD":      "\uFFFD",
		`\u00a0`:      "\u00a0",
		"0123456789…": "0123456789a",
		"012345678…":  "012345678é",
		`it's "a\b"`:  `it's "a\b"`,
	} {
		require.Equal(t, want, fault.Printable(of, 10), of)
	}
}
