package write_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/write"
)

// A column is compressed at the level of the options only if it takes fewer bytes at it.
//
// spec: stage-53
func TestLevelsOfCompression(t *testing.T) {
	t.Parallel()
	bytes := func(of arrow.DataType, level int, fill func(to array.Builder, rng *rand.Rand)) int64 {
		rng := rand.New(rand.NewPCG(1, 2))
		sc := schemaOf(of)
		rows := filled(sc, 20_000, func(to array.Builder, _ int) { fill(to, rng) })
		for _, size := range roll(t, 1<<30, write.Options{Schema: sc, ZstdLevel: level}, rows).written[0].ColumnBytes {
			return size
		}
		return 0
	}
	random := func(to array.Builder, rng *rand.Rand) { to.(*array.Float64Builder).Append(rng.Float64()) }
	texts := func(to array.Builder, rng *rand.Rand) {
		words := make([]string, 6)
		for i := range words {
			words[i] = fmt.Sprintf("the %dth word", rng.IntN(3000)*7919)
		}
		to.(*array.StringBuilder).Append(strings.Join(words, " "))
	}
	require.Equal(t, bytes(arrow.PrimitiveTypes.Float64, 1, random), bytes(arrow.PrimitiveTypes.Float64, 3, random))
	require.Less(t, bytes(arrow.BinaryTypes.String, 3, texts), bytes(arrow.BinaryTypes.String, 1, texts))
}
