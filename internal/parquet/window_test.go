package parquet_test

import (
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// TestClaimedWindows reads a page whose Zstandard frame claims a window of 512 MiB: no memory is taken
// for it, since pages are decompressed into memory of the size in their headers.
func TestClaimedWindows(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	frame := parquettest.ZstdZeros(nil, 8)
	frame[5] = (29 - 10) << 3 // the exponent of the window, from 1 KiB on
	file := parquettest.Handmade{Rows: 1, Values: 1, Codec: 6, Plain: 8, Pages: []parquettest.Page{{Values: 1, Plain: 8, Body: frame}}}
	f := open(t, file.Content())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := read(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	requireEqual(t, table(t, sc, `[{"v": 0}]`), got)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
}
