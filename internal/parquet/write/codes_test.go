package write_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/write"
)

// integers is a batch of a column of integers, or of lists of them, by a number for each value and how many
// a row has.
type integers struct {
	list, nullable, nullableElements bool
	wide                             bool // 64 bits
	value                            func(at int) int64
	length                           func(row int) int
}

// column returns the schema and rows.
func (c integers) column(rows int, rng *rand.Rand) (*arrow.Schema, arrow.RecordBatch) {
	t := arrow.PrimitiveTypes.Int32
	if c.wide {
		t = arrow.PrimitiveTypes.Int64
	}
	w := newWorld(0)
	field := w.field("c", t, c.nullable)
	if c.list {
		field = w.field("c", arrow.ListOfField(w.field("element", t, c.nullableElements)), c.nullable)
	}
	sc := arrow.NewSchema([]arrow.Field{field}, nil)
	at := 0
	one := func(to array.Builder, null bool) {
		v := c.value(at)
		at++
		if null {
			to.AppendNull()
			return
		}
		if c.wide {
			to.(*array.Int64Builder).Append(v)
		} else {
			to.(*array.Int32Builder).Append(int32(v))
		}
	}
	return sc, filled(sc, rows, func(to array.Builder, row int) {
		list, ok := to.(*array.ListBuilder)
		if !ok {
			one(to, c.nullable && rng.IntN(5) == 0)
			return
		}
		if c.nullable && rng.IntN(5) == 0 {
			list.AppendNull()
			return
		}
		list.Append(true)
		for range c.length(row) {
			one(list.ValueBuilder(), c.nullableElements && rng.IntN(5) == 0)
		}
	})
}

// TestCodesOfIntegers writes integers with dictionaries: few and many values, runs and extremes, with nulls and empty lists, in
// many pages and in several row groups.
//
// spec: file-1 file-3
func TestCodesOfIntegers(t *testing.T) {
	t.Parallel()
	values := map[string]func(rng *rand.Rand, at int) int64{
		"one value":   func(*rand.Rand, int) int64 { return math.MinInt64 },
		"few":         func(rng *rand.Rand, _ int) int64 { return int64(rng.IntN(7)) * 1_000_003 },
		"runs":        func(_ *rand.Rand, at int) int64 { return int64(at/9%900) * 1_000_003 * 1_000_003 },
		"many":        func(rng *rand.Rand, _ int) int64 { return -int64(rng.IntN(3000)) * 1_000_003 * 1_000_003 },
		"two of each": func(_ *rand.Rand, at int) int64 { return int64(at/2) * 1_000_003 * 1_000_003 },
	}
	for name, value := range values {
		for shape := range 16 {
			t.Run(fmt.Sprintf("%s, shape %d", name, shape), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(7, uint64(shape)))
				c := integers{list: shape&1 > 0, nullable: shape&2 > 0, nullableElements: shape&4 > 0, wide: shape&8 > 0}
				c.value = func(at int) int64 { return value(rng, at) }
				c.length = func(row int) int { return row % 5 }
				sc, rows := c.column(3000, rng)
				opts := write.Options{Schema: sc, Dictionary: []int{1, 2}}.WithRowGroupRows(1300).WithPageBytes(4000)
				content, out := writeFile(t, opts, rows)
				requireRows(t, content, sc, rows)
				for _, encoding := range out.Encodings {
					require.Equal(t, "RLE_DICTIONARY", encoding)
				}
				again, _ := writeFile(t, opts, rows)
				require.Equal(t, content, again)
			})
		}
	}
}

// TestLargeDictionaryIsGivenUp writes more values than a dictionary may have: later pages are plain.
//
// spec: file-3
func TestLargeDictionaryIsGivenUp(t *testing.T) {
	t.Parallel()
	c := integers{wide: true, nullable: true, value: func(at int) int64 { return int64(at) * 7919 }}
	sc, rows := c.column(400_000, rand.New(rand.NewPCG(7, 8)))
	content, _ := writeFile(t, write.Options{Schema: sc, Dictionary: []int{1}}, rows)
	requireRows(t, content, sc, rows)
	rdr, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	column, err := rdr.MetaData().RowGroup(0).ColumnChunk(0)
	require.NoError(t, err)
	require.True(t, column.HasDictionaryPage())
	require.Len(t, column.EncodingStats(), 3, "the dictionary, pages of codes, and plain ones")
}
