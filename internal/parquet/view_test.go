package parquet_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// TestRowsOfAFile reads any rows of files with any pages and row groups.
func TestRowsOfAFile(t *testing.T) {
	t.Parallel()
	const n = 9000
	all := numbers(t, 0, n)
	random := rand.New(rand.NewPCG(7, 7))
	for _, opts := range []parquettest.Options{
		{},
		{RowGroupRows: 4000, PageBytes: 200},
		{RowGroupRows: 4000, PageBytes: 200, PageV2: true},
		{PageBytes: 500, Plain: true},
		{PageBytes: 500, Plain: true, PageV2: true, Codec: parquettest.Uncompressed},
		{PageBytes: 1, RowGroupRows: 2500, Codec: parquettest.Snappy},
	} {
		f := open(t, write(t, opts, all))
		for range 40 / share {
			from := random.Int64N(n)
			to := from + 1 + random.Int64N(n-from)
			requireRows(t, f, parquet.ReadOptions{
				Fields: ids(4), Schema: numbersSchema(), BatchRows: 1 + random.IntN(2000), Cores: cores.New(random.IntN(3)),
			}, all, [2]int64{from, to})
		}
	}
}

// TestRowsOfOtherRowGroups reads row groups that have none of the rows.
func TestRowsOfOtherRowGroups(t *testing.T) {
	t.Parallel()
	all := numbers(t, 0, 400)
	f := open(t, write(t, parquettest.Options{RowGroupRows: 100}, all))
	for _, rows := range [][2]int64{{150, 170}, {100, 200}, {399, 0}, {0, 1}} {
		got, err := read(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), From: rows[0], To: rows[1]})
		require.NoError(t, err)
		if rows[1] == 0 {
			rows[1] = 400
		}
		requireEqual(t, all.NewSlice(rows[0], rows[1]), got)
	}
}

// damageOtherPages overwrites half of the bodies of all data pages that have none of some rows
// of a file of one row group, and returns how many.
func damageOtherPages(t *testing.T, f *parquet.File, content []byte, leaf int, rows [2]int64) (damaged int) {
	t.Helper()
	start, end := parquet.Chunk(f, 0, leaf)
	chunk := content[start:end]
	headers, err := parquet.PageHeaders(chunk)
	require.NoError(t, err)
	counts, err := parquet.PageRows(f, leaf, chunk)
	require.NoError(t, err)
	at := int64(0)
	for i, n := range counts {
		next := len(chunk)
		if i+1 < len(headers) {
			next = headers[i+1][0]
		}
		if n >= 0 && (at+n <= rows[0] || at >= rows[1]) { // not a dictionary
			for j := (headers[i][1] + next) / 2; j < next; j++ { // levels precede the values
				chunk[j] ^= 0xa5
			}
			damaged++
		}
		at += max(n, 0)
	}
	return damaged
}

// TestOtherPagesAreNotDecoded damages the pages that have none of the wanted rows, of columns of
// every kind: the rows are the same. Lists in version 1 pages are decoded from the first row on,
// since their page headers do not count rows.
//
// spec: storage-15
func TestOtherPagesAreNotDecoded(t *testing.T) {
	t.Parallel()
	all := cases()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%share != 0 && !arrow.IsNested(all[name].kind.ID()) {
			continue
		}
		c := all[name]
		for _, optional := range []bool{false, true} {
			for _, opts := range []parquettest.Options{{PageBytes: 40}, {PageBytes: 40, Plain: true}, {PageBytes: 40, PageV2: true}} {
				t.Run(fmt.Sprintf("%s/%t/%t-%t", name, optional, opts.Plain, opts.PageV2), func(t *testing.T) {
					t.Parallel()
					written := repeat(t, c.column(t, optional), 100)
					lists := arrow.IsListLike(c.kind.ID()) || c.kind.ID() == arrow.MAP
					content := write(t, opts, written)
					n := written.NumRows()
					rows := [2]int64{n / 2, n/2 + n/8}
					f := open(t, content)
					read := parquet.ReadOptions{Fields: ids(1), Schema: written.Schema(), BatchRows: 500}
					requireRows(t, f, read, written, rows)
					requireRows(t, f, read, written, [2]int64{n - 3, n - 1})
					if lists && !opts.PageV2 || name == "struct" || name == "listPairs" { // leaves of structs have other pages
						return
					}
					damaged := 0
					for leaf := range parquet.Leaves(f) {
						damaged += damageOtherPages(t, f, content, leaf, rows)
					}
					require.Greater(t, damaged, 2, "pages without wanted rows")
					requireRows(t, open(t, content), read, written, rows)
				})
			}
		}
	}
}

// repeat returns the rows some times over.
func repeat(t *testing.T, rows arrow.RecordBatch, times int) arrow.RecordBatch {
	t.Helper()
	return concat(t, rows.Schema(), slices.Repeat([]arrow.RecordBatch{rows}, times))
}

// listPage is a version 2 page of a list column, whose elements are numbered from first on. A row
// begins with each 0 of the repetition levels.
func listPage(rows int, first int64, repetition ...uint32) parquettest.Page {
	var levels []byte
	for _, level := range repetition {
		levels = append(levels, parquettest.Run(1, level, 1)...)
	}
	body := append(slices.Clone(levels), parquettest.Run(len(repetition), 1, 1)...)
	definition := len(body) - len(levels)
	for i := range repetition {
		body = binary.LittleEndian.AppendUint64(body, uint64(first)+uint64(i))
	}
	return parquettest.Page{
		Values: len(repetition), Plain: len(body), Body: body,
		V2: &parquettest.PageV2{Rows: rows, Repetition: len(levels), Definition: definition},
	}
}

// TestRowsOfPagesThatLie reads lists of version 2 pages whose headers do not count the rows as
// the format requires: the pages are not stepped over, and the rows are right.
func TestRowsOfPagesThatLie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pages   []parquettest.Page
		stepped bool
	}{
		"as required":       {[]parquettest.Page{listPage(2, 0, 0, 1, 0, 1), listPage(2, 4, 0, 1, 0, 1), listPage(2, 8, 0, 1, 0, 1)}, true},
		"rows are too few":  {[]parquettest.Page{listPage(1, 0, 0, 1, 0, 1), listPage(1, 4, 0, 1, 0, 1), listPage(1, 8, 0, 1, 0, 1)}, false},
		"rows are too many": {[]parquettest.Page{listPage(4, 0, 0, 1, 0, 1), listPage(4, 4, 0, 1, 0, 1), listPage(4, 8, 0, 1, 0, 1)}, false},
		"rows are missing":  {[]parquettest.Page{listPage(-1, 0, 0, 1, 0, 1), listPage(-1, 4, 0, 1, 0, 1), listPage(-1, 8, 0, 1, 0, 1)}, false},
		"more than levels":  {[]parquettest.Page{listPage(-6, 0, 0, 1, 0, 1), listPage(6, 4, 0, 1, 0, 1), listPage(6, 8, 0, 1, 0, 1)}, false},
		"pages continue":    {[]parquettest.Page{listPage(1, 0, 0, 1, 0), listPage(3, 3, 1, 0, 1, 0, 1), listPage(2, 8, 0, 1, 0, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := parquettest.Handmade{Rows: 6, Values: 12, List: true, Plain: 1000, Pages: c.pages}
			content := h.Content()
			schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: list(arrow.PrimitiveTypes.Int64, false)}}, nil)
			want := table(t, schema, `[{"c":[0,1]},{"c":[2,3]},{"c":[4,5]},{"c":[6,7]},{"c":[8,9]},{"c":[10,11]}]`)
			f := open(t, content)
			got := mustRead(t, f, parquet.ReadOptions{Fields: ids(1), Schema: schema, BatchRows: 2})
			requireEqual(t, want, got)
			requireRows(t, f, parquet.ReadOptions{Fields: ids(1), Schema: schema}, want, [2]int64{5, 6})
			start, _ := parquet.Chunk(f, 0, 0)
			content[start] ^= 0xff // of the first header
			_, err := read(t, open(t, content), parquet.ReadOptions{Fields: ids(1), Schema: schema, From: 5})
			require.Error(t, err, "headers of skipped pages are read")
		})
	}
}

// BenchmarkLastRows compares reading the last eighth of a row group with reading a file that has
// only these rows.
func BenchmarkLastRows(b *testing.B) {
	all := training(250_000)
	n := all.NumRows()
	last := all.NewSlice(n-n/8, n)
	for name, c := range map[string]struct {
		rows arrow.RecordBatch
		from int64
	}{"whole": {all, 0}, "last eighth": {all, n - n/8}, "own file": {last, 0}} {
		for _, plain := range []bool{true, false} {
			f := open(b, write(b, parquettest.Options{PageBytes: 64 << 10, Plain: plain}, c.rows))
			pool := &batch.Pool{}
			b.Run(fmt.Sprintf("%s/plain=%t", name, plain), func(b *testing.B) {
				measure(b, c.rows.NumRows()-c.from, func() {
					rdr, err := f.Read(b.Context(), parquet.ReadOptions{Fields: ids(18), Schema: all.Schema(), From: c.from, Memory: pool, Scratch: pool})
					require.NoError(b, err)
					defer rdr.Release()
					for rdr.Next() {
					}
					require.NoError(b, rdr.Err())
				})
			})
		}
	}
}

// TestColumnsWithACommonLeaf reads some rows of a struct, of fields in it and of a column that it
// lacks: they are decoded from the pages of common leaves, which begin at other rows than those of the
// other leaves of the struct.
//
// spec: storage-15
func TestColumnsWithACommonLeaf(t *testing.T) {
	t.Parallel()
	const n = 3000
	inner := arrow.StructOf(nullable("a", arrow.PrimitiveTypes.Int64), nullable("b", arrow.BinaryTypes.String))
	stored := arrow.NewSchema([]arrow.Field{nullable("s", inner)}, nil)
	var structs, flat []string
	for i := range n {
		b := fmt.Sprintf(`"%s%d"`, strings.Repeat("x", i%37), i)
		structs = append(structs, fmt.Sprintf(`{"s": {"a": %d, "b": %s}}`, i, b))
		flat = append(flat, fmt.Sprintf(`{"s": {"a": %d, "b": %s}, "s.a": %d, "s.b": %s, "s.c": null}`, i, b, i, b))
	}
	wide := arrow.NewSchema([]arrow.Field{
		nullable("s", inner), nullable("s.a", arrow.PrimitiveTypes.Int64), nullable("s.b", arrow.BinaryTypes.String), nullable("s.c", arrow.PrimitiveTypes.Int64),
	}, nil)
	all := table(t, wide, "["+strings.Join(flat, ",")+"]")
	var batches []arrow.RecordBatch // a page ends with a batch
	for at := 0; at < n; at += 10 {
		batches = append(batches, table(t, stored, "["+strings.Join(structs[at:at+10], ",")+"]"))
	}
	for _, opts := range []parquettest.Options{{PageBytes: 90, Plain: true}, {PageBytes: 90, PageV2: true}} {
		f := open(t, write(t, opts, batches...))
		for _, order := range [][]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 3}, {3, 0}, {0, 1, 2, 3}, {3, 2, 1, 0}} {
			read := parquet.ReadOptions{Schema: project(wide, order...), NullIfAbsent: true, Around: map[int]int{99: 1}, BatchRows: 300}
			var columns []arrow.Array
			for _, i := range order {
				read.Fields = append(read.Fields, []int{1, 2, 3, 99}[i])
				columns = append(columns, all.Column(i))
			}
			for _, rows := range [][2]int64{{1015, 1500}, {1001, 1500}, {2222, 2223}, {17, n}} {
				requireRows(t, f, read, array.NewRecordBatch(read.Schema, columns, n), rows)
			}
		}
	}
}
