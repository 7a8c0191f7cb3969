package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// lineitem makes rows of the decimals of TPC-H's lineitem: 50 quantities, many prices, 11
// discounts and 9 taxes.
func lineitem(n int) arrow.RecordBatch {
	kind := &arrow.Decimal128Type{Precision: 15, Scale: 2}
	var fields []arrow.Field
	for _, name := range []string{"l_quantity", "l_extendedprice", "l_discount", "l_tax"} {
		fields = append(fields, nullable(name, kind))
	}
	random := rand.New(rand.NewPCG(1, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for range n {
		for i, v := range []int64{100 * (1 + random.Int64N(50)), 90_000 + random.Int64N(10_400_000), random.Int64N(11), random.Int64N(9)} {
			b.Field(i).(*array.Decimal128Builder).Append(decimal128.FromI64(v))
		}
	}
	return b.NewRecordBatch()
}

// identifiers makes rows of an optional and a required column of 16 bytes.
func identifiers(n int) arrow.RecordBatch {
	kind := &arrow.FixedSizeBinaryType{ByteWidth: 16}
	random := rand.New(rand.NewPCG(1, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "id", Type: kind}, nullable("session", kind)}, nil))
	for i := range n {
		for c, v := range []uint64{random.Uint64(), uint64(i / 10)} {
			b.Field(c).(*array.FixedSizeBinaryBuilder).Append(fmt.Appendf(nil, "%016x", v))
		}
	}
	return b.NewRecordBatch()
}

// comments makes rows of two columns of text: sentences of TPC-H's words, and addresses that share
// their beginnings.
func comments(n int) arrow.RecordBatch {
	words := strings.Fields("foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes courts dolphins carefully quickly furiously even ironic final")
	random := rand.New(rand.NewPCG(1, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{nullable("l_comment", arrow.BinaryTypes.String), nullable("address", arrow.BinaryTypes.String)}, nil))
	for i := range n {
		var text []string
		for range 2 + random.IntN(4) {
			text = append(text, words[random.IntN(len(words))])
		}
		b.Field(0).(*array.StringBuilder).Append(strings.Join(text, " "))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("https://example.org/articles/%d/%08d", i/100, i))
	}
	return b.NewRecordBatch()
}

// BenchmarkDecoders reads numbers and texts as Spark's chunks list their encodings, and decimals, fixed-length bytes and texts in the encodings of several
// writers.
func BenchmarkDecoders(b *testing.B) {
	const n = 250_000
	for _, c := range []struct {
		name string
		rows arrow.RecordBatch
		opts parquettest.Options
	}{
		{"spark/training", training(n), parquettest.Options{}},
		{"spark/texts", textBatch(rand.New(rand.NewPCG(1, 1)), n, 5000, 20, 0.1), parquettest.Options{}},
		{"decimals/integers", lineitem(n), parquettest.Options{DecimalAsInteger: true}},
		{"decimals/integers/plain", lineitem(n), parquettest.Options{DecimalAsInteger: true, Plain: true}},
		{"decimals/fixed", lineitem(n), parquettest.Options{}},
		{"decimals/fixed/plain", lineitem(n), parquettest.Options{Plain: true}},
		{"fixed/dictionary", identifiers(n), parquettest.Options{}},
		{"fixed/plain", identifiers(n), parquettest.Options{Plain: true}},
		{"texts/lengths", comments(n), parquettest.Options{Encoding: arrowparquet.Encodings.DeltaLengthByteArray}},
		{"texts/deltas", comments(n), parquettest.Options{Encoding: arrowparquet.Encodings.DeltaByteArray}},
	} {
		content := write(b, c.opts, c.rows)
		if strings.HasPrefix(c.name, "spark") {
			content = asOfSpark(b, content)
		}
		f, pool := open(b, content), &batch.Pool{}
		b.Run(c.name, func(b *testing.B) {
			measure(b, n, func() {
				rdr, err := f.Read(b.Context(), parquet.ReadOptions{Fields: ids(int(c.rows.NumCols())), Schema: c.rows.Schema(), BatchRows: 8 << 10, Memory: pool, Scratch: pool})
				require.NoError(b, err)
				defer rdr.Release()
				for rdr.Next() {
				}
				require.NoError(b, rdr.Err())
			})
		})
		b.Run(c.name+"/library", func(b *testing.B) { measure(b, n, func() { readRaw(b, content, false, pool) }) })
	}
}
