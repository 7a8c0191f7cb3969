package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// deltaEncodings are the encodings of texts as deltas.
func deltaEncodings() []arrowparquet.Encoding {
	return []arrowparquet.Encoding{arrowparquet.Encodings.DeltaLengthByteArray, arrowparquet.Encodings.DeltaByteArray}
}

// TestDeltaTexts reads texts that the library wrote as deltas, in batches of any length, also
// shortened for long values.
func TestDeltaTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	rounds := 16
	if os.Getenv("PENSTOCK_LONG") != "" {
		rounds = 320
	}
	for i := 0; i < rounds; i += share {
		n := 1 + r.IntN(3000)
		want := textBatch(r, n, 1+r.IntN(2*n), []int{0, 3, 40, 600}[i/4%4], []float64{0, 0.1, 0.5, 1}[i%4])
		content := write(t, parquettest.Options{
			Encoding: deltaEncodings()[i/2%2], PageV2: i%2 == 0, PageBytes: int64(64 + r.IntN(4096)), RowGroupRows: int64(1 + r.IntN(n)),
			Codec: parquettest.Codec(i % 5),
		}, want)
		got := mustRead(t, open(t, content), parquet.ReadOptions{
			Fields: ids(int(want.NumCols())), Schema: want.Schema(), BatchRows: 1 + r.IntN(1500), Cores: cores.New(1 + i%2),
			RunBytes: []int64{0, 100, 5000}[i%3],
		})
		requireEqual(t, want, got)
		got.Release()
		want.Release()
	}
}

// batchRows reads a file of one column and returns the rows of each batch.
func batchRows(t *testing.T, content []byte, sc *arrow.Schema, runBytes int64) (out []int64) {
	t.Helper()
	rdr, err := open(t, content).Read(t.Context(), parquet.ReadOptions{Fields: ids(1), Schema: sc, RunBytes: runBytes, Memory: allocator(t), Scratch: allocator(t)})
	require.NoError(t, err)
	defer rdr.Release()
	for rdr.Next() {
		out = append(out, rdr.RecordBatch().NumRows())
	}
	require.NoError(t, rdr.Err())
	return out
}

// TestLongDeltasShortenBatches expects batches of few rows if their values are long: texts that
// share their beginning, of which the pages have little, and fixed-length bytes.
func TestLongDeltasShortenBatches(t *testing.T) {
	t.Parallel()
	texts := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.BinaryTypes.String}}, nil))
	fixed := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "c", Type: &arrow.FixedSizeBinaryType{ByteWidth: 1000}}}, nil))
	for i := range 100 {
		value := strings.Repeat("x", 996) + fmt.Sprintf("%04d", i)
		texts.Field(0).(*array.StringBuilder).Append(value)
		fixed.Field(0).(*array.FixedSizeBinaryBuilder).Append([]byte(value))
	}
	for _, c := range []struct {
		rows arrow.RecordBatch
		opts parquettest.Options
	}{
		{texts.NewRecordBatch(), parquettest.Options{Encoding: arrowparquet.Encodings.DeltaByteArray}},
		{fixed.NewRecordBatch(), parquettest.Options{Plain: true}},
	} {
		require.Equal(t, []int64{30, 30, 30, 10}, batchRows(t, write(t, c.opts, c.rows), c.rows.Schema(), 30_000))
	}
}

// FuzzDeltaTexts changes bytes of a file: reading returns the rows or an error, and frees all
// memory.
func FuzzDeltaTexts(f *testing.F) {
	f.Add(uint16(9), byte(1), true)
	f.Add(uint16(400), byte(255), false)
	fuzzFlips(f, parquettest.Options{Encoding: arrowparquet.Encodings.DeltaByteArray}, 78, func(*testing.T) arrow.RecordBatch {
		return textBatch(rand.New(rand.NewPCG(1, 1)), 300, 40, 20, 0.3)
	})
}

// FuzzDeltaLengths is FuzzDeltaTexts for values of which only the lengths are deltas.
func FuzzDeltaLengths(f *testing.F) {
	f.Add(uint16(9), byte(1), true)
	f.Add(uint16(400), byte(255), false)
	fuzzFlips(f, parquettest.Options{Encoding: arrowparquet.Encodings.DeltaLengthByteArray}, 78, func(*testing.T) arrow.RecordBatch {
		return textBatch(rand.New(rand.NewPCG(1, 1)), 300, 40, 20, 0.3)
	})
}
