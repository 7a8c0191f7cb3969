package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// TestWriteToUnclearedMemory writes the same rows through zeroed and through used memory:
// the bytes are the same, for all types, codecs, pages and indexes.
func TestWriteToUnclearedMemory(t *testing.T) {
	batches := map[string]arrow.RecordBatch{
		"numbers": numbers(t, 0, 500),
		"flat":    flatBatch(t, rand.New(rand.NewPCG(1, 2)), 3000, 700, 0.4),
		"lists":   listBatch(rand.New(rand.NewPCG(3, 4)), 100, listForm{distinct: 90, maxLength: 20, nulls: 0.2, empty: 0.2, nullElements: 0.2}),
	}
	for name, c := range cases() {
		for _, nullable := range []bool{false, true} {
			batches[fmt.Sprintf("%s nullable=%t", name, nullable)] = c.column(t, nullable)
		}
	}
	mem := batch.NewPoison(&batch.Pool{}) // shared, so each file gets the memory of the previous one
	for name, rows := range batches {
		for i := range 8 {
			if i%share != 0 {
				continue
			}
			opts := parquettest.Options{
				Codec: parquettest.Codec(i % 5), Plain: i&1 != 0, PageV2: i&2 != 0, PageIndex: i&4 != 0,
				DecimalAsInteger: i%3 == 1, NoStatistics: i == 6, PageBytes: 512, RowGroupRows: 2000,
			}
			want := write(t, opts, rows)
			opts.Memory = mem
			require.Equal(t, want, write(t, opts, rows), "%s, %+v", name, opts)
		}
	}
}
