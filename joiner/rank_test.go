package joiner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// spec: join-31
func TestOrderOfEveryType(t *testing.T) {
	cases := map[string][]string{
		"int": {"-5", "0", "7"}, "long": {"-5", "0", "7"}, "float": {"-Inf", "-1.5", "0", "2", "+Inf", "NaN"},
		"date": {"1969-01-01", "2026-01-01"}, "timestamp": {"1969-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		"string": {"", "A", "B", "a", "é"}, "binary": {"AA==", "AAA=", "/w=="}, "word": {"AAAAAA==", "fwAAAA==", "gAAAAA=="},
		"decimal": {"-20", "-1.5", "0", "1.25", "3"}, "bool": {"false", "true"},
	}
	for dt, values := range cases {
		t.Run(dt, func(t *testing.T) {
			staging := table{name: "staging", fields: columns(t, "req long", "v "+dt), cuts: []int{1, 1}}
			var want []string
			for i := range values {
				staging.rows = append(staging.rows, []string{"7", values[len(values)-1-i]})
				want = append(want, values[i])
			}
			staging.rows = append(rows{{"7", null}}, staging.rows...)
			training := table{name: "training", fields: columns(t, "request long"), rows: parse("7")}
			for _, descending := range []bool{false, true} {
				opts := Options{Memory: checked(t)}
				spec := BuildSpec{OrderBy: []Order{{Column: 1, Descending: descending}}}
				probe := staging.probe(t, 1, Rule{Name: "s", Duplicates: rule.DuplicatesAll}, spec, opts)
				r, err := Join(t.Context(), training.input(t, opts.Memory, nil, nil), []Probe{probe}, opts)
				require.NoError(t, err)
				got, _, err := drain(t, r)
				require.NoError(t, err)
				require.Len(t, got, len(values)+1)
				require.Equal(t, null, got[len(values)])
				same := written(t, staging.fields[1].Type, want...)
				for i, v := range got[:len(values)] {
					if descending {
						i = len(values) - 1 - i
					}
					require.Equal(t, same[i], v)
				}
			}
		})
	}
	t.Run("lists have no order", func(t *testing.T) {
		mem := checked(t)
		staging := table{name: "staging", fields: columns(t, "req long", "v longs")}
		_, err := Build(t.Context(), staging.input(t, mem, []int{0}, nil), BuildSpec{Name: "s", OrderBy: []Order{{Column: 1}}}, Options{Memory: mem})
		require.ErrorContains(t, err, "rows cannot be ordered by column v of type list")
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	})
}
