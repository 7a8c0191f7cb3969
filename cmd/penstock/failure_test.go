package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestFailureAsText(t *testing.T) {
	group := 3
	e := fault.New(fault.Corrupt, "the page is cut off").In("ml.impressions", "/a.parquet").InRowGroup(group).WithRemedy("restore the file")
	e.Op = "read ml.impressions@7"
	require.Equal(t, "penstock: read ml.impressions@7: the page is cut off\n  file: /a.parquet\n  row group: 3\n  → restore the file\n", describe(e))
	e = fault.New(fault.Invalid, "the cursor is of another plan")
	e.Differs = []string{"filter", "seed"}
	require.Equal(t, "penstock: the cursor is of another plan\n  differs: filter\n  differs: seed\n", describe(e))
}
