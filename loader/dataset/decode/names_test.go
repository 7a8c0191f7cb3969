package decode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset/decode"
)

// TestFieldNamesOfOtherPrograms checks that names from other programs are mapped to fields of a query.
func TestFieldNamesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	require.Equal(t, "batch_rows", decode.MeantField("batch_size"))
	require.Empty(t, decode.MeantField("batch_rows"))
}
