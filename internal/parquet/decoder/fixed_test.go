package decoder

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// bigOf decodes two's complement without any of the shifts of the decoder.
func bigOf(stored []byte) *big.Int {
	v := new(big.Int).SetBytes(stored)
	if stored[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(stored))))
	}
	return v
}

// TestBigEndian decodes decimals of each width, with all bits set or clear at either end, plain and
// from a dictionary.
func TestBigEndian(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for width := 1; width <= 16; width++ {
		var stored []byte
		const n = 40
		for i := range n {
			for range width {
				stored = append(stored, byte(random.Uint32()))
			}
			value := stored[i*width:]
			switch i {
			case 1:
				copy(value, bytes.Repeat([]byte{0xff}, width))
			case 2:
				clear(value)
			case 3, n - 1: // the most negative number, also without bytes behind it
				clear(value)
				value[0] = 0x80
			case 4:
				copy(value, bytes.Repeat([]byte{0xff}, width))
				value[0] = 0x7f
			}
		}
		out := make([]decimal128.Num, n)
		bigEndian(out, stored, width)
		looked, indices := make([]decimal128.Num, n), make([]uint32, n)
		for i := range indices {
			indices[i] = uint32(n - 1 - i)
		}
		l := valueDecoder{form: fixedDecimal, width: width, dictionary: stored}
		l.lookUpDecimals(looked, indices)
		for i := range out {
			require.Equal(t, bigOf(stored[i*width:(i+1)*width]), out[i].BigInt(), "width %d, value %d", width, i)
			require.Equal(t, out[i], looked[n-1-i], "width %d, value %d", width, i)
		}
	}
}

// indicesPage is a page of dictionary indices of eight bits.
func indicesPage(indices ...byte) page.Page {
	values := []byte{8}
	for _, i := range indices {
		values = append(values, 1<<1, i)
	}
	return page.Page{Count: len(indices), Encoding: parquet.Encodings.RLEDict, Values: values}
}

// deltasPage is a page of DELTA_BYTE_ARRAY.
func deltasPage(prefixes, suffixes []int32, rest string) page.Page {
	return page.Page{
		Count: len(prefixes), Encoding: parquet.Encodings.DeltaByteArray,
		Values: append(append(parquettest.Deltas(prefixes...), parquettest.Deltas(suffixes...)...), rest...),
	}
}

// lengthsPage is a page of DELTA_LENGTH_BYTE_ARRAY.
func lengthsPage(lengths []int32, rest string) page.Page {
	return page.Page{Count: len(lengths), Encoding: parquet.Encodings.DeltaLengthByteArray, Values: append(parquettest.Deltas(lengths...), rest...)}
}

// withCount changes the number of values that the header of a page declares.
func withCount(p page.Page, count int) page.Page {
	p.Count = count
	return p
}

// onePage makes a chunk of one uncompressed page, after a dictionary if there is one.
func onePage(dictionary []byte, entries int, p page.Page) *page.Reader {
	var chunk []byte
	add := func(h page.Header, values []byte) {
		h.Uncompressed, h.Stored = int64(len(values)), int64(len(values))
		chunk = append(h.Append(chunk), values...)
	}
	if dictionary != nil {
		add(page.Header{Kind: page.Dictionary, Count: int64(entries)}, dictionary)
	}
	add(page.Header{Kind: page.Data, Count: int64(p.Count), Encoding: int64(p.Encoding)}, p.Values)
	return pagesOf(chunk)
}

// pagesOf returns the pages of an uncompressed chunk without levels.
func pagesOf(chunk []byte) *page.Reader {
	required := schema.NewColumn(schema.NewByteArrayNode("c", parquet.Repetitions.Required, -1), 0, 0)
	out, _ := page.NewReader(&page.Chunk{Column: required, Codec: compress.Codecs.Uncompressed}, chunk, nil, memory.DefaultAllocator)
	return out
}

// TestDamagedFixedValues expects that dictionaries and pages have the declared number of values, all
// of the declared width, and that indices are within their dictionary. Skipping finds the same
// damage, except for indices out of range.
func TestDamagedFixedValues(t *testing.T) {
	t.Parallel()
	dictionary := []byte("abcdef")
	for name, c := range map[string]struct {
		form       valueForm
		dictionary []byte
		entries    int
		page       page.Page
		err        string
		unskipped  bool // skipping does not find it
	}{
		"plain":                      {form: fixedBytes, page: page.Page{Count: 2, Values: []byte("abcdef")}},
		"plain decimals":             {form: fixedDecimal, page: page.Page{Count: 2, Values: []byte("abcdef")}},
		"indices":                    {form: fixedBytes, dictionary: dictionary, entries: 2, page: indicesPage(1, 0, 1)},
		"indices of decimals":        {form: fixedDecimal, dictionary: dictionary, entries: 2, page: indicesPage(1, 0, 1)},
		"deltas":                     {form: fixedBytes, page: deltasPage([]int32{0, 2, 3}, []int32{3, 1, 0}, "abcd")},
		"deltas of decimals":         {form: fixedDecimal, page: deltasPage([]int32{0, 2, 3}, []int32{3, 1, 0}, "abcd")},
		"too few":                    {form: fixedBytes, page: page.Page{Count: 2, Values: []byte("abcde")}, err: "fewer values than rows"},
		"too few decimals":           {form: fixedDecimal, page: page.Page{Count: 2, Values: []byte("abcde")}, err: "fewer values than rows"},
		"too many":                   {form: fixedBytes, page: page.Page{Count: 2, Values: []byte("abcdefg")}, err: "more values or levels than rows"},
		"an index out of range":      {form: fixedBytes, dictionary: dictionary, entries: 2, page: indicesPage(1, 2), err: "beyond the dictionary", unskipped: true},
		"a decimal out of range":     {form: fixedDecimal, dictionary: dictionary, entries: 2, page: indicesPage(2), err: "beyond the dictionary", unskipped: true},
		"a packed index out of it":   {form: fixedBytes, dictionary: dictionary, entries: 2, page: page.Page{Count: 2, Encoding: parquet.Encodings.RLEDict, Values: []byte{2, 3, 0b1001, 0}}, err: "beyond the dictionary", unskipped: true},
		"an index, no dictionary":    {form: fixedDecimal, page: indicesPage(0), err: "beyond the dictionary", unskipped: true},
		"too few indices":            {form: fixedBytes, dictionary: dictionary, entries: 2, page: withCount(indicesPage(1), 2), err: "cannot be read"},
		"too many indices":           {form: fixedBytes, dictionary: dictionary, entries: 2, page: withCount(indicesPage(1, 1), 1), err: "more values or levels than rows"},
		"another dictionary's width": {form: fixedBytes, dictionary: dictionary, entries: 3, page: indicesPage(1), err: "a dictionary of 3 values has 6 bytes"},
		"a longer delta":             {form: fixedBytes, page: deltasPage([]int32{0, 3}, []int32{3, 1}, "abcd"), err: "deltas of a page"},
		"a shorter delta":            {form: fixedBytes, page: deltasPage([]int32{0, 1}, []int32{3, 1}, "abcd"), err: "deltas of a page"},
		"a prefix of nothing":        {form: fixedDecimal, page: deltasPage([]int32{3}, []int32{0}, ""), err: "deltas of a page"},
		"suffixes missing":           {form: fixedBytes, page: deltasPage([]int32{0, 2}, []int32{3, 1}, "abc"), err: "deltas of a page"},
		"suffixes left over":         {form: fixedBytes, page: deltasPage([]int32{0, 2}, []int32{3, 1}, "abcde"), err: "more values or levels than rows"},
		"more deltas than rows":      {form: fixedBytes, page: withCount(deltasPage([]int32{0, 2}, []int32{3, 1}, "abcd"), 1), err: "deltas of a page"},
		"fewer deltas than rows":     {form: fixedBytes, page: withCount(deltasPage([]int32{0, 2}, []int32{3, 1}, "abcd"), 3), err: "fewer values than rows"},
		"more prefixes":              {form: fixedBytes, page: deltasPage([]int32{0, 2}, []int32{3}, "abc"), err: "deltas of a page"},
		"lengths":                    {form: fixedBytes, page: lengthsPage([]int32{3, 3}, "abcdef"), err: "does not list"},
		"deltas of integers":         {form: integerDecimal, page: deltasPage([]int32{0}, []int32{3}, "abc"), err: "does not list"},
		"deltas of numbers":          {form: sameForm, page: deltasPage([]int32{0}, []int32{3}, "abc"), err: "does not list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, skip := range []bool{false, true} {
				column := &flatColumn{valueDecoder: newValueDecoder(onePage(c.dictionary, c.entries, c.page), c.form, 3), kind: &arrow.FixedSizeBinaryType{ByteWidth: 3}}
				if c.form != fixedBytes {
					column.kind = &arrow.Decimal128Type{Precision: 7}
				}
				rows, err := c.page.Count, error(nil)
				if skip {
					if err = column.Skip(rows); err == nil {
						err = column.Skip(1) // finds a surplus
						if c.err == "" || c.unskipped {
							require.ErrorIs(t, err, ErrRowsMissing)
							continue
						}
					}
				} else {
					var out arrow.ArrayData
					if out, err = column.Read(rows+1, memory.DefaultAllocator); err == nil {
						require.Equal(t, rows, out.Len())
					}
				}
				if c.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.err)
				}
			}
		})
	}
}

// TestDamagedDeltaTexts is TestDamagedFixedValues for texts as deltas.
func TestDamagedDeltaTexts(t *testing.T) {
	t.Parallel()
	negative := lengthsPage([]int32{1, 1}, "ab")
	negative.Values = append(parquettest.Deltas(1, -1), "ab"...)
	for name, c := range map[string]struct {
		page page.Page
		want []string
		err  string
	}{
		"lengths":                  {lengthsPage([]int32{1, 0, 2}, "abc"), []string{"a", "", "bc"}, ""},
		"deltas":                   {deltasPage([]int32{0, 2, 0, 0}, []int32{3, 1, 0, 2}, "abcdef"), []string{"abc", "abd", "", "ef"}, ""},
		"empty values":             {lengthsPage([]int32{0, 0}, ""), []string{"", ""}, ""},
		"one longer than the rest": {deltasPage([]int32{0, 1, 5}, []int32{1, 4, 0}, "abcde"), []string{"a", "abcde", "abcde"}, ""},
		"too few bytes":            {lengthsPage([]int32{1, 2}, "ab"), nil, "fewer values than rows"},
		"too many bytes":           {lengthsPage([]int32{1, 2}, "abcd"), nil, "more values or levels than rows"},
		"more lengths than rows":   {withCount(lengthsPage([]int32{1, 2}, "abc"), 1), nil, "deltas of a page"},
		"fewer lengths than rows":  {withCount(lengthsPage([]int32{1, 2}, "abc"), 3), nil, "fewer values than rows"},
		"a negative length":        {negative, nil, "deltas of a page"},
		"a prefix of nothing":      {deltasPage([]int32{1}, []int32{1}, "a"), nil, "deltas of a page"},
		"a longer prefix":          {deltasPage([]int32{0, 2}, []int32{1, 1}, "ab"), nil, "deltas of a page"},
		"suffixes missing":         {deltasPage([]int32{0, 1}, []int32{1, 2}, "ab"), nil, "fewer values than rows|deltas of a page"},
		"suffixes left over":       {deltasPage([]int32{0, 1}, []int32{1, 2}, "abcd"), nil, "more values or levels than rows"},
		"more suffixes":            {deltasPage([]int32{0}, []int32{1, 1}, "ab"), nil, "deltas of a page"},
		"no lengths":               {page.Page{Count: 1, Encoding: parquet.Encodings.DeltaByteArray}, nil, "fewer values than rows"},
		"damaged lengths":          {page.Page{Count: 1, Encoding: parquet.Encodings.DeltaLengthByteArray, Values: []byte{1, 2, 3}}, nil, "deltas of a page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, step := range []int{1, 2, 100} {
				for _, skipped := range []int{0, 1} {
					got, err := textsOf(c.page, step, skipped)
					if c.err != "" {
						require.Error(t, err)
						require.Regexp(t, c.err, err.Error())
						continue
					}
					require.NoError(t, err)
					require.Equal(t, c.want[skipped:], got)
				}
			}
		})
	}
}

// textsOf reads the texts of a page in batches of a number of rows, behind some that it skips.
func textsOf(p page.Page, step, skipped int) ([]string, error) {
	column := &Text{valueDecoder: valueDecoder{pages: onePage(nil, 0, p), longest: 5}, kind: arrow.BinaryTypes.String}
	defer column.Release()
	if err := column.Skip(skipped); err != nil {
		return nil, err
	}
	var got []string
	for {
		data, err := column.Read(step, memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		texts := array.NewStringData(data)
		for i := range texts.Len() {
			got = append(got, texts.Value(i))
		}
		if texts.Len() < step {
			return got, nil
		}
	}
}

// TestSurplusDeltasAreAnError expects an error for a page with more values than levels that are not
// null, even if the surplus ones are empty.
func TestSurplusDeltasAreAnError(t *testing.T) {
	t.Parallel()
	for _, p := range []page.Page{lengthsPage([]int32{1, 0}, "a"), deltasPage([]int32{0, 0}, []int32{1, 0}, "a")} {
		l := valueDecoder{pages: pagesOf(nil), longest: 1}
		require.NoError(t, l.open(&p))
		c := Text{valueDecoder: l}
		require.NoError(t, c.passDeltas(1))
		_, err := c.next()
		require.ErrorIs(t, err, errSurplus)
		require.NoError(t, c.passDeltas(1))
		_, err = c.next()
		require.NoError(t, err)
	}
}

// TestDeltasWithoutValues expects that a page whose header counts no values has none, whatever
// follows: arrow-go leaves bytes behind the header.
func TestDeltasWithoutValues(t *testing.T) {
	t.Parallel()
	none := binary.AppendVarint([]byte{0x80, 1, 4, 0}, 0)
	for _, encoding := range []parquet.Encoding{parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray} {
		p := page.Page{Encoding: encoding, Values: append(none, 0, 0, 7)}
		d, rest, err := newDeltaValues(&p)
		require.NoError(t, err)
		require.True(t, d.exhausted())
		require.Empty(t, rest)
		_, err = textsOf(withCount(p, 1), 1, 0)
		require.ErrorIs(t, err, errValuesMissing)
	}
}
