package write_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/write"
)

// A column is compressed at the usual level only if it takes clearly fewer bytes at it.
//
// spec: stage-53
func TestLevelsOfCompression(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	sc := schemaOf(arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String)
	b := array.NewRecordBuilder(batch.Default(), sc)
	defer b.Release()
	for range 20_000 {
		b.Field(0).(*array.Float64Builder).Append(rng.Float64())
		words := make([]string, 6)
		for i := range words {
			words[i] = fmt.Sprintf("the %dth word", rng.IntN(3000)*7919)
		}
		b.Field(1).(*array.StringBuilder).Append(strings.Join(words, " "))
	}
	rows := b.NewRecordBatch()
	defer rows.Release()
	var choice write.EncodingChoice
	_, chosen := writeFile(t, write.Options{Schema: sc, Choice: &choice}, rows)
	require.Equal(t, []int{1, 3}, choice.Levels())
	choice.SetLevel(1)
	_, fast := writeFile(t, write.Options{Schema: sc, Choice: &choice}, rows)
	require.Equal(t, fast.ColumnBytes[1], chosen.ColumnBytes[1])
	require.Less(t, chosen.ColumnBytes[2], fast.ColumnBytes[2]*100/102)
	choice.SetLevel(3)
	_, usual := writeFile(t, write.Options{Schema: sc, Choice: &choice}, rows)
	require.GreaterOrEqual(t, usual.ColumnBytes[1], chosen.ColumnBytes[1]*100/102)
	require.Equal(t, usual.ColumnBytes[2], chosen.ColumnBytes[2])
}
