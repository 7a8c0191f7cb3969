package write_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/write"
)

// The first file with enough rows chooses the encodings of later ones.
//
// spec: stage-47
func TestEncodingsOfLaterFiles(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	sc := schemaOf(arrow.PrimitiveTypes.Int64)
	random := filled(sc, 5000, func(to array.Builder, _ int) { to.(*array.Int64Builder).Append(int64(rng.Uint64())) })
	times := func(rows int) arrow.RecordBatch {
		return filled(sc, rows, func(to array.Builder, row int) {
			to.(*array.Int64Builder).Append(int64(row)*1_000_000 + int64(rng.IntN(1000)))
		})
	}
	opts := write.Options{Schema: sc, Choice: &write.EncodingChoice{}}
	encoding := func(rows arrow.RecordBatch) string {
		for _, name := range roll(t, 1<<30, opts, rows).written[0].Encodings {
			return name
		}
		return ""
	}
	encoding(times(100)) // too few rows to choose by
	require.Equal(t, "PLAIN", encoding(random))
	require.Equal(t, "PLAIN", encoding(times(5000)))
	opts.Choice = &write.EncodingChoice{}
	require.Equal(t, "DELTA_BINARY_PACKED", encoding(times(5000)))
	require.Equal(t, "DELTA_BINARY_PACKED", encoding(random))
}
