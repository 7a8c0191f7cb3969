package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
)

var labelSchema = arrow.NewSchema([]arrow.Field{
	{Name: "label", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "copy", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "opposite", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "noise", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "few", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
}, nil)

// labeled returns rows with a label below a number, and the pairs of label and noise.
func labeled(rng *rand.Rand, rows, below int) (d table, pairs [][2]float64) {
	d = table{schema: labelSchema}
	for i := range rows {
		label, noise, few := rng.IntN(below), rng.IntN(5), "null"
		if i < 12 {
			few = text(int64(label))
		}
		if rng.IntN(2) == 0 {
			noise += label
		}
		pairs = append(pairs, [2]float64{float64(label), float64(noise)})
		d.rows = append(d.rows, fmt.Sprintf(`{"label": %d, "copy": %g, "opposite": %t, "noise": %d, "text": "%d", "few": %s}`, label, float64(label)*2.5-7, label == 0, noise, label, few))
	}
	d.rows = append(d.rows, `{"label": null, "copy": 1}`, `{"label": 1, "copy": "NaN"}`)
	return d, pairs
}

// A copy of a label is a leak, in both directions, and other columns have the value of the definition.
//
// spec: stats-60, stats-61
func TestLabels(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		for below, measure := range map[int]stats.LabelMeasure{2: stats.AUC, 3: stats.Correlation} {
			d, pairs := labeled(rng, 60+rng.IntN(300), below)
			p := describe(t, d, stats.Sampling{}, d.batches(t, rng))
			got := p.Label(0, labelSchema.Fields())
			p.Release()
			require.Equal(t, measure, got.Measure)
			require.Equal(t, "label", got.Column)
			values := map[string]stats.Relation{}
			for _, c := range got.Columns {
				values[c.Column] = c
			}
			require.Equal(t, stats.Relation{Column: "copy", Value: values["copy"].Value, Rows: int64(len(pairs)), Leak: true, Rarer: values["copy"].Rarer}, values["copy"])
			require.InDelta(t, 1, values["copy"].Value, 1e-9)
			if below == 2 {
				require.InDelta(t, 0, values["opposite"].Value, 0)
				require.Len(t, got.Alarms(), 2)
			}
			require.InDelta(t, naive(measure, pairs), values["noise"].Value, 1e-9)
			require.False(t, values["noise"].Leak)
			require.NotContains(t, values, "text")
			require.NotContains(t, values, "few", "12 rows tell nothing")
		}
	}
	require.Empty(t, (*stats.Label)(nil).Alarms())
	for name, kind := range map[string]fault.Kind{"text": fault.Invalid, "lable": fault.NotFound} {
		_, err := stats.FindLabel(name, labelSchema.Fields())
		require.Equal(t, kind, fault.KindOf(err))
	}
}

// naive computes a measure by its definition.
func naive(measure stats.LabelMeasure, pairs [][2]float64) float64 {
	if measure == stats.AUC {
		sum, n := 0.0, 0.0
		for _, a := range pairs {
			for _, b := range pairs {
				if a[0] != 1 || b[0] != 0 {
					continue
				}
				n++
				switch {
				case a[1] > b[1]:
					sum++
				case a[1] == b[1]:
					sum += 0.5
				}
			}
		}
		return sum / n
	}
	var x, y, xx, yy, xy float64
	for _, p := range pairs {
		x, y, xx, yy, xy = x+p[0], y+p[1], xx+p[0]*p[0], yy+p[1]*p[1], xy+p[0]*p[1]
	}
	n := float64(len(pairs))
	return (n*xy - x*y) / math.Sqrt((n*xx-x*x)*(n*yy-y*y))
}
