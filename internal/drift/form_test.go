package drift_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
)

// list returns texts as JSON.
func list(n int, text func(i int) string) string {
	var out []string
	for i := range n {
		out = append(out, strconv.Quote(text(i)))
	}
	return strings.Join(out, ",")
}

// New texts in the forms of the base are no alarm, and texts in another form are, unless they are few.
//
// spec: stats-24, stats-35
func TestFormsOfTexts(t *testing.T) {
	hex := func(i int) string { return fmt.Sprintf("%04x-%04x", 40503*i%65536, 9973*i%65536) }
	padded := func(i int) string { return fmt.Sprintf("%06d", 37*i) }
	mixed := func(of int, of100 func(int) string, rest func(int) string) func(int) string {
		return func(i int) string {
			if i%100 < of {
				return of100(i)
			}
			return rest(i)
		}
	}
	for name, c := range map[string]struct {
		base, value func(i int) string
		text        string // "" for no alarm
	}{
		"new keys":      {hex, func(i int) string { return hex(i + 5000) }, ""},
		"upper case":    {hex, mixed(30, func(i int) string { return strings.ToUpper(hex(i)) }, hex), "texts with upper-case letters, digits, '-' and 9 characters are 29."},
		"a few":         {hex, mixed(1, func(i int) string { return strings.ToUpper(hex(i)) }, hex), ""},
		"all of them":   {hex, func(i int) string { return hex(i)[:4] }, "texts with lower-case letters, digits and another length are 84.2% of all texts that are not empty, and were 0% ("},
		"grown numbers": {padded, func(i int) string { return padded(i + 9000) }, ""},
		"no padding":    {padded, mixed(30, func(i int) string { return strings.TrimLeft(padded(i), "0") }, padded), "texts with digits and another length are 16.2%"},
		"empty texts":   {hex, mixed(30, func(int) string { return "" }, hex), ""},
	} {
		t.Run(name, func(t *testing.T) {
			base, value := profile(t, text, list(5000, c.base), 1), profile(t, text, list(5000, c.value), 1)
			var forms []string
			for _, a := range drift.Alarms(drift.Compare(base, value, drift.NewTest(100))) {
				if a.Measure == drift.Form {
					forms = append(forms, a.Text())
				}
			}
			if c.text == "" {
				require.Empty(t, forms)
				return
			}
			require.Len(t, forms, 1)
			require.Contains(t, forms[0], c.text)
		})
	}
}
