package decode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// limitsOf decodes the limits of a staging entry.
func limitsOf(t *testing.T, limits string) (dataset.Dataset, error) {
	t.Helper()
	return decode.Dataset("d", document(t, "training: {table: ml.t}\nkey: [k]\nstaging: [{table: f.s, limits: "+limits+"}]"))
}

// Limits are decoded, and change neither the rows of a dataset nor the definition of a promotion.
//
// spec: stats-89
func TestLimitsOfValues(t *testing.T) {
	t.Parallel()
	d, err := limitsOf(t, `{against: trained, columns: {price: {nulls: 0.05, min: -1.5, max: 1000, change: {psi: 0.25, mean: 0.2}}, "a.b \"": {zeros: 0}}}`)
	require.NoError(t, err)
	require.Equal(t, &dataset.Limits{Against: "trained", Columns: []dataset.ColumnLimits{
		{Column: `a.b "`, Bounds: []dataset.Limit{{Measure: "zeros"}}},
		{
			Column: "price", Bounds: []dataset.Limit{{Measure: "max", Value: 1000}, {Measure: "min", Value: -1.5}, {Measure: "nulls", Value: 0.05}},
			Changes: dataset.ChangeLimits{{Measure: "mean", Value: 0.2}, {Measure: "psi", Value: 0.25}},
		},
	}}, d.Staging[0].Limits)
	d.Training.Limits = d.Staging[0].Limits
	all := func(int) bool { return true }
	without := d
	without.Training.Limits, without.Staging = nil, []dataset.Staging{d.Staging[0]}
	without.Staging[0].Limits = nil
	require.NotEqual(t, without.Digest(), d.Digest())
	require.Equal(t, without.RowsDigest(all), d.RowsDigest(all))
	require.Equal(t, without.Staging[0].PromotionDigest(d.Key), d.Staging[0].PromotionDigest(d.Key))
	q, err := decode.Query([]byte(`{"dataset": ` + string(d.Canonical()) + `}`))
	require.NoError(t, err)
	require.Equal(t, d.Training.Limits, q.Inline.Training.Limits)
	require.Equal(t, d.Staging, q.Inline.Staging)
}

// Every measure of a comparison may have a limit, apart from the share of matches and shifts of times, and unknown measures are mistakes.
func TestMeasuresOfLimits(t *testing.T) {
	t.Parallel()
	for _, m := range drift.Measures() {
		_, err := limitsOf(t, "{columns: {c: {change: {"+string(m)+": 1}}}}")
		require.Equal(t, m == drift.MatchRate || m == drift.Shift, err != nil, "%s: %v", m, err)
	}
	for _, m := range drift.BoundMeasures() {
		_, err := limitsOf(t, "{columns: {c: {"+string(m)+": 1}}}")
		require.NoError(t, err)
	}
	at := "staging[0].limits.columns"
	for limits, c := range map[string][2]string{
		"{}":                                          {at, "missing"},
		"{columns: {}}":                               {at, "must have 1 to 10000 columns, not 0"},
		"{columns: [price]}":                          {at, "must be an object that maps columns to limits"},
		"{columns: {c: {}}}":                          {at + ".c", "has no limit"},
		"{columns: {c: {change: {}}}}":                {at + ".c.change", "has no limit"},
		"{columns: {c: 0.1}}":                         {at + ".c", "must be an object"},
		"{columns: {\"\": {nulls: 0}}}":               {at + `[""]`, "a column's name has 1 to 1024 bytes"},
		"{columns: {c: {nulls: 5}}}":                  {at + ".c.nulls", "must be at most 1, not 5; 5 % is 0.05"},
		"{columns: {c: {max: .inf}}}":                 {at + ".c.max", "finite"},
		"{columns: {c: {min: 2, max: 1}}}":            {at + ".c.min", "is greater than max"},
		"{columns: {c: {nul: 0.1}}}":                  {at + ".c.nul", "unknown field"},
		"{columns: {c: {psi: 0.1}}}":                  {at + ".c.psi", "unknown field"},
		"{columns: {c: {change: {unit: 0.5}}}}":       {at + ".c.change.unit", "must be at least 1"},
		"{columns: {c: {change: {mean: -1}}}}":        {at + ".c.change.mean", "must be at least 0"},
		"{columns: {c: {change: {min: 1}}}}":          {at + ".c.change.min", "unknown field"},
		"{columns: {c: {match_rate: 0.9}}}":           {at + ".c.match_rate", "not supported by this version; write min_match in the staging entry"},
		"{columns: {c: {nulls: 0.1}}, match_rate: 1}": {"staging[0].limits.match_rate", "unknown field"},
	} {
		_, err := limitsOf(t, limits)
		require.Error(t, err, limits)
		faults := fault.As(err).Faults
		require.Len(t, faults, 1, "%s: %v", limits, faults)
		require.Equal(t, c[0], faults[0].Field, limits)
		require.Contains(t, faults[0].Message, c[1], limits)
	}
}
