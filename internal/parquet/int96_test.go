package parquet

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"
)

// TestInt96StatisticsAreUnknown expects that the bounds in a footer are ignored.
//
// spec: resolve-60
func TestInt96StatisticsAreUnknown(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/spark-int96.parquet")
	require.NoError(t, err)
	end := len(content) - trailer
	length := int(binary.LittleEndian.Uint32(content[end:]))
	meta, err := metadata.NewFileMetaData(content[end-length:end], nil)
	require.NoError(t, err)
	for _, g := range meta.RowGroups {
		s := g.Columns[0].MetaData.Statistics
		require.NotNil(t, s)
		s.MinValue, s.MaxValue = []byte("twelve bytes"), []byte("twelve bytes")
		s.Min, s.Max = s.MinValue, s.MaxValue
	}
	footer, err := newFooter("file:///t/a.parquet", meta, unknownTypes{}, int64(length), int64(len(content)))
	require.NoError(t, err)
	got, ok := footer.Statistics(0, 1, &arrow.TimestampType{Unit: arrow.Microsecond})
	require.True(t, ok)
	require.Equal(t, Statistics{Rows: got.Rows, Nulls: got.Nulls}, got)
	require.Positive(t, got.Nulls)
}
