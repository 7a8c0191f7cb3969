package promote_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// Computed and dense columns keep their values when the entries whose columns they name are promoted, in
// all forms of batches.
//
// spec: computed-16
func TestComputedColumnsOfPromotedEntries(t *testing.T) {
	for _, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireAuto, dataset.WireIndexed} {
		r := newRig(t)
		r.create(t, 2)
		d := features3()
		d.Computed = []dataset.Computed{
			{Column: "staged", Expr: "coalesce(l_f, 0) + 1"}, {Column: "mixed", Expr: "coalesce(m, 0) + coalesce(row, 0)"}, {Column: "seen", Expr: "has"},
		}
		fill := float32(0)
		q := dataset.Query{
			Rows:    dataset.Rows{Filter: datasettest.Filter("staged > 0")},
			Reading: dataset.Reading{Wire: wire, Dense: []dataset.Dense{{Name: "x", Columns: []dataset.Column{{Column: "l_f"}, {Column: "staged"}}, Fill: &fill}}},
		}
		before := r.ask(t, d, q)
		r.promoteAll(t, d, "left", "matched", "over")
		same(t, before, r.ask(t, d, q), string(wire))
	}
}

// A computed column is no entry, so it cannot be promoted.
func TestComputedColumnsAreNotPromoted(t *testing.T) {
	d := features3()
	d.Computed = []dataset.Computed{{Column: "staged", Expr: "coalesce(l_f, 0) + 1"}}
	_, err := d.Defaults().Promoted([]string{"staged"}, nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "staged is a computed column of dataset home")
}
