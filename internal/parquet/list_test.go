package parquet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// listForm describes a random column of lists.
type listForm struct {
	distinct     int
	maxLength    int     // maximum elements of a list
	nulls, empty float64 // shares of rows, where allowed
	nullElements float64
	even         bool // all lists have the maximum length
}

// listBatch makes a column of lists of every type that this package decodes, with lists
// and elements nullable or not.
func listBatch(r *rand.Rand, n int, form listForm) arrow.RecordBatch {
	var fields []arrow.Field
	for i, kind := range []arrow.DataType{
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	} {
		for j := range 4 {
			fields = append(fields, arrow.Field{Name: fmt.Sprint("l", i, j), Type: list(kind, j%2 == 1), Nullable: j/2 == 1})
		}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i, f := range fields {
		appendLists(r, b.Field(i).(*array.ListBuilder), f, n, form)
	}
	return b.NewRecordBatch()
}

func appendLists(r *rand.Rand, b *array.ListBuilder, f arrow.Field, n int, form listForm) {
	nullable := f.Type.(*arrow.ListType).ElemField().Nullable
	for range n {
		length := form.maxLength
		if !form.even {
			length = r.IntN(form.maxLength + 1)
		}
		switch {
		case f.Nullable && r.Float64() < form.nulls:
			b.AppendNull()
			continue
		case r.Float64() < form.empty:
			length = 0
		}
		b.Append(true)
		for range length {
			if nullable && r.Float64() < form.nullElements {
				b.ValueBuilder().AppendNull()
			} else {
				appendNumber(b.ValueBuilder(), int64(r.IntN(form.distinct)))
			}
		}
	}
}

// TestListColumns reads files written by the library in batches of any length: plain
// pages, dictionaries, pages of both versions, lists longer than a page, equal lists and
// lists of every form.
func TestListColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	forms := []listForm{
		{distinct: 300, maxLength: 50, even: true},
		{distinct: 9, maxLength: 7, nulls: 0.3, empty: 0.2, nullElements: 0.3},
		{distinct: 1 << 20, maxLength: 40, nulls: 0.02, empty: 0.02, nullElements: 0.01},
		{distinct: 500, maxLength: 5000, empty: 0.5},
		{distinct: 1, maxLength: 3, nulls: 1, empty: 1, nullElements: 1},
		{distinct: 40, maxLength: 1, nulls: 0.5, nullElements: 1},
	}
	rounds := 2 * len(forms)
	if os.Getenv("PENSTOCK_LONG") != "" {
		rounds *= 20
	}
	for i := 0; i < rounds; i += share {
		form := forms[i%len(forms)]
		n := 1 + r.IntN(1+5000/(form.maxLength+1))
		want := listBatch(r, n, form)
		opts := parquettest.Options{
			FieldIDs: ids(int(want.NumCols())), Plain: i%3 == 0, PageV2: i/len(forms)%2 == 0, PageBytes: int64(64 + r.IntN(8192)), RowGroupRows: int64(1 + r.IntN(n)),
			Codec: parquettest.Codec(i % 5),
		}
		content := write(t, opts, want)
		got := mustRead(t, open(t, content), parquet.ReadOptions{
			Fields: ids(int(want.NumCols())), Schema: want.Schema(), BatchRows: 1 + r.IntN(n), Cores: cores.New(1 + i%2),
		})
		requireEqual(t, want, got)
		got.Release()
		want.Release()
	}
}

// TestPyarrowLists reads the lists of testdata/make.py.
func TestPyarrowLists(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "history", Type: list(arrow.PrimitiveTypes.Int64, true), Nullable: true},
		{Name: "embedding", Type: list(arrow.PrimitiveTypes.Float32, false)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	history, embedding := b.Field(0).(*array.ListBuilder), b.Field(1).(*array.ListBuilder)
	for i := range 400 {
		embedding.Append(true)
		for j := range 16 {
			embedding.ValueBuilder().(*array.Float32Builder).Append(float32(i*j) / 2)
		}
		if i%7 == 0 {
			history.AppendNull()
			continue
		}
		history.Append(true)
		for j := range i % 60 {
			if (i+j)%11 == 0 {
				history.ValueBuilder().AppendNull()
			} else {
				history.ValueBuilder().(*array.Int64Builder).Append(int64(i * j % 50))
			}
		}
	}
	want := b.NewRecordBatch()
	defer want.Release()
	for _, name := range []string{"testdata/lists-1.parquet", "testdata/lists-2.parquet"} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, rows := range []int{1, 33, 400} {
			got := mustRead(t, open(t, content), parquet.ReadOptions{Fields: ids(2), Schema: sc, BatchRows: rows})
			requireEqual(t, want, got)
			got.Release()
		}
	}
}

// levelsFile writes a column of nullable lists of nullable int64 from levels that need
// not be valid, with a page for each part.
func levelsFile(t *testing.T, rows int, parts ...levelPart) []byte {
	t.Helper()
	element := schema.NewInt64Node("element", arrowparquet.Repetitions.Optional, 2)
	column, err := schema.ListOf(element, arrowparquet.Repetitions.Optional, 1)
	require.NoError(t, err)
	root, err := schema.NewGroupNode("schema", arrowparquet.Repetitions.Required, schema.FieldList{column}, -1)
	require.NoError(t, err)
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(arrowparquet.NewWriterProperties(
		arrowparquet.WithDictionaryDefault(false), arrowparquet.WithDataPageSize(1), arrowparquet.WithBatchSize(1<<20),
	)))
	group, err := w.AppendRowGroupChecked()
	require.NoError(t, err)
	chunk, err := group.NextColumn()
	require.NoError(t, err)
	for _, p := range parts {
		var values []int64
		for _, d := range p.definition {
			if d == 3 {
				values = append(values, int64(len(values)))
			}
		}
		_, err := chunk.(*file.Int64ColumnChunkWriter).WriteBatch(values, p.definition, p.repetition)
		require.NoError(t, err)
	}
	require.NoError(t, chunk.Close())
	require.NoError(t, group.Close())
	require.NoError(t, w.Close())
	written, err := group.NumRows()
	require.NoError(t, err)
	require.Equal(t, rows, written)
	return out.Bytes()
}

// levelPart has the levels of a page.
type levelPart struct{ definition, repetition []int16 }

// TestListLevels reads rows that continue in the next page, and refuses levels that
// contradict each other.
func TestListLevels(t *testing.T) {
	for name, c := range map[string]struct {
		rows  int
		parts []levelPart
		want  string // or
		err   string
	}{
		"one page":                                     {4, []levelPart{{[]int16{3, 2, 1, 0, 3}, []int16{0, 1, 0, 0, 0}}}, `[[0,null],[],null,[1]]`, ""},
		"continues":                                    {2, []levelPart{{[]int16{3, 3}, []int16{0, 1}}, {[]int16{3, 2, 3}, []int16{1, 1, 0}}}, `[[0,1,0,null],[1]]`, ""},
		"continues to the end":                         {1, []levelPart{{[]int16{2}, []int16{0}}, {[]int16{3}, []int16{1}}, {[]int16{3}, []int16{1}}}, `[[null,0,0]]`, ""},
		"starts in the middle":                         {1, []levelPart{{[]int16{3, 3}, []int16{1, 0}}}, "", "continues"},
		"continues an empty list":                      {1, []levelPart{{[]int16{1, 3}, []int16{0, 1}}}, "", "continues"},
		"continues a null list":                        {1, []levelPart{{[]int16{0, 3}, []int16{0, 1}}}, "", "continues"},
		"continues with an empty list":                 {1, []levelPart{{[]int16{3, 1}, []int16{0, 1}}}, "", "continues"},
		"continues an empty list of the previous page": {1, []levelPart{{[]int16{1}, []int16{0}}, {slices.Repeat([]int16{3}, 100), slices.Repeat([]int16{1}, 100)}}, "", "continues"},
	} {
		t.Run(name, func(t *testing.T) {
			sc := arrow.NewSchema([]arrow.Field{{Name: "l", Type: list(arrow.PrimitiveTypes.Int64, true), Nullable: true}}, nil)
			content := levelsFile(t, c.rows, c.parts...)
			got, err := read(t, open(t, content), parquet.ReadOptions{Fields: []int{1}, Schema: sc, BatchRows: 1})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Equal(t, fault.Corrupt, fault.KindOf(err))
				return
			}
			require.NoError(t, err)
			want, err := fromJSON(sc.Field(0).Type, c.want)
			require.NoError(t, err)
			requireEqual(t, single(sc, want), got)
		})
	}
}

// FuzzListColumns changes bytes of a file: reading returns the rows or an error, and
// frees all memory.
func FuzzListColumns(f *testing.F) {
	f.Add(uint16(9), byte(1), true)
	f.Add(uint16(900), byte(255), false)
	fuzzFlips(f, parquettest.Options{}, 23, func(t *testing.T) arrow.RecordBatch {
		return listBatch(rand.New(rand.NewPCG(1, 1)), 60, listForm{distinct: 40, maxLength: 9, nulls: 0.1, empty: 0.1, nullElements: 0.1})
	})
}
