package joiner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
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
			staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "req long", "v "+dt), Cuts: []int{1, 1}}
			var want []string
			for i := range values {
				staging.Rows = append(staging.Rows, []string{"7", values[len(values)-1-i]})
				want = append(want, values[i])
			}
			staging.Rows = append(joinertest.Rows{{"7", joinertest.Null}}, staging.Rows...)
			training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long"), Rows: joinertest.Parse("7")}
			for _, descending := range []bool{false, true} {
				opts := joiner.Options{Memory: joinertest.Checked(t)}
				spec := joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 1, Descending: descending}}}
				probe := staging.Probe(t, 1, joiner.Rule{Name: "s", Duplicates: rule.DuplicatesAll}, spec, opts)
				r, err := joiner.Join(t.Context(), training.Input(t, opts.Memory, nil, nil), []joiner.Probe{probe}, opts)
				require.NoError(t, err)
				got, _, err := joinertest.Drain(t, r)
				require.NoError(t, err)
				require.Len(t, got, len(values)+1)
				require.Equal(t, joinertest.Null, got[len(values)])
				same := joinertest.Written(t, staging.Fields[1].Type, want...)
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
		mem := joinertest.Checked(t)
		staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "req long", "v longs")}
		_, err := joiner.Build(t.Context(), staging.Input(t, mem, []int{0}, nil), joiner.BuildSpec{Name: "s", OrderBy: []joiner.Order{{Column: 1}}}, joiner.Options{Memory: mem})
		require.ErrorContains(t, err, "rows cannot be ordered by column v of type list")
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	})
}
