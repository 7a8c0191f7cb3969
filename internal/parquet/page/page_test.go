package page

import (
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/require"
)

// TestLevelsOfOldWriters refuses levels that are encoded as BIT_PACKED, which chunks may list.
func TestLevelsOfOldWriters(t *testing.T) {
	t.Parallel()
	p := Reader{optional: true}
	h := Header{Count: 1, DefinitionEncoding: int64(parquet.Encodings.BitPacked)}
	require.ErrorContains(t, p.splitLevels(&Page{Values: make([]byte, 9)}, &h), "levels are encoded as BIT_PACKED")
}
