package decoder

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/page"
)

// TestSurplusValuesAreAnError expects an error for a page with more values than rows: it
// held something else, such as levels.
func TestSurplusValuesAreAnError(t *testing.T) {
	l := &valueDecoder{pages: &page.Reader{}, width: 8, values: make([]byte, 16)}
	out := make([]byte, 8)
	require.NoError(t, l.take(out, 1))
	_, err := l.next()
	require.ErrorContains(t, err, "more values or levels than rows")
	require.NoError(t, l.take(out, 1))
	require.Error(t, l.take(out, 1), "too few values")
}

// TestSurplusRunsAreAnError expects an error for surplus indices and levels. Flipping a
// bit of a page header turns plain values into indices.
func TestSurplusRunsAreAnError(t *testing.T) {
	twice := rleDecoder{rest: []byte{2 << 1, 0, 2 << 1, 0}, width: 1}
	read := func(h rleDecoder) rleDecoder {
		var out [2]byte
		require.NoError(t, h.bytes(out[:]))
		return h
	}
	once := twice
	once.rest = once.rest[:2]
	for name, next := range map[string]func(h rleDecoder) error{
		"indices": func(h rleDecoder) error {
			l := valueDecoder{pages: &page.Reader{}, width: 8, indexed: true, indices: h}
			_, err := l.next()
			return err
		},
		"levels": func(h rleDecoder) error {
			c := flatColumn{valueDecoder: valueDecoder{pages: &page.Reader{}}, optional: true, levels: h}
			_, err := c.nextPage()
			return err
		},
		"definition levels of lists": func(h rleDecoder) error {
			c := listColumn{valueDecoder: valueDecoder{pages: &page.Reader{}}, levels: listLevels{definition: h}}
			_, err := c.load()
			return err
		},
		"repetition levels": func(h rleDecoder) error {
			c := listColumn{valueDecoder: valueDecoder{pages: &page.Reader{}}, levels: listLevels{repetition: h}}
			_, err := c.load()
			return err
		},
		"levels of strings": func(h rleDecoder) error {
			c := Text{valueDecoder: valueDecoder{pages: &page.Reader{}}, levels: h}
			_, err := c.nextPage()
			return err
		},
	} {
		require.NoError(t, next(read(once)), name)
		require.ErrorIs(t, next(read(twice)), errSurplus, name)
		require.ErrorIs(t, next(once), errSurplus, name)
	}
}

// plainTexts returns plain strings as in a page.
func plainTexts(values ...string) []byte {
	var out []byte
	for _, v := range values {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(v))), v...)
	}
	return out
}

// TestDamagedByteArrays expects that dictionaries and pages have the declared number of
// values, and that indices are within their dictionary.
func TestDamagedByteArrays(t *testing.T) {
	two := plainTexts("a", "bc")
	for name, c := range map[string]struct {
		dictionary *page.Page
		data       page.Page
		err        string
	}{
		"plain":                         {nil, page.Page{Values: two, Count: 2}, ""},
		"dictionary":                    {&page.Page{Values: two, Count: 2}, page.Page{Values: []byte{1, 3, 0b10}, Count: 2, Encoding: parquet.Encodings.RLEDict}, ""},
		"no values":                     {&page.Page{}, page.Page{Count: 0, Encoding: parquet.Encodings.RLEDict}, ""},
		"fewer than the dictionary":     {&page.Page{Values: two, Count: 1}, page.Page{}, "as many values as its header declares"},
		"more than the dictionary":      {&page.Page{Values: two, Count: 3}, page.Page{}, "as many values as its header declares"},
		"far more than the dictionary":  {&page.Page{Values: two, Count: 1 << 30}, page.Page{}, "as many values as its header declares"},
		"zero of two":                   {&page.Page{Values: two}, page.Page{}, "as many values as its header declares"},
		"a truncated dictionary":        {&page.Page{Values: two[:len(two)-1], Count: 2}, page.Page{}, "as many values as its header declares"},
		"an index out of range":         {&page.Page{Values: two, Count: 2}, page.Page{Values: []byte{2, 3, 0b1001, 0}, Count: 2, Encoding: parquet.Encodings.RLEDict}, "beyond the dictionary"},
		"an index without a dictionary": {nil, page.Page{Values: []byte{1, 3, 0}, Count: 2, Encoding: parquet.Encodings.RLEDict}, "beyond the dictionary"},
		"more than the page":            {nil, page.Page{Values: two, Count: 3}, "fewer values than rows"},
		"a truncated value":             {nil, page.Page{Values: two[:len(two)-1], Count: 2}, "fewer values than rows"},
		"more indices than rows":        {&page.Page{Values: two, Count: 2}, page.Page{Values: []byte{1, 4 << 1, 0}, Count: 2, Encoding: parquet.Encodings.RLEDict}, "more values or levels than rows"},
		"another run of indices":        {&page.Page{Values: two, Count: 2}, page.Page{Values: []byte{1, 2 << 1, 0, 2 << 1, 0}, Count: 2, Encoding: parquet.Encodings.RLEDict}, "more values or levels than rows"},
		"padding":                       {&page.Page{Values: two, Count: 2}, page.Page{Values: []byte{1, 3, 0b00}, Count: 1, Encoding: parquet.Encodings.RLEDict}, ""},
		"a surplus group":               {&page.Page{Values: two, Count: 2}, page.Page{Values: []byte{1, 5, 0, 0}, Count: 8, Encoding: parquet.Encodings.RLEDict}, "more values or levels than rows"},
		"a block of padding":            {&page.Page{Values: two, Count: 2}, page.Page{Values: append([]byte{1, 65}, bytes.Repeat([]byte{1}, 32)...), Count: 1, Encoding: parquet.Encodings.RLEDict}, ""},
		"blocks of padding":             {&page.Page{Values: two, Count: 2}, page.Page{Values: append([]byte{1, 129, 1}, bytes.Repeat([]byte{1}, 64)...), Count: 8, Encoding: parquet.Encodings.RLEDict}, "more values or levels than rows"},
		"less than a block":             {&page.Page{Values: two, Count: 2}, page.Page{Values: append([]byte{1, 63}, make([]byte, 31)...), Count: 8, Encoding: parquet.Encodings.RLEDict}, "more values or levels than rows"},
		"fewer than the page":           {nil, page.Page{Values: two, Count: 1}, "more values or levels than rows"},
		"an unlisted encoding":          {nil, page.Page{Values: two, Count: 2, Encoding: parquet.Encodings.ByteStreamSplit}, "does not list"},
	} {
		t.Run(name, func(t *testing.T) {
			column := &Text{valueDecoder: valueDecoder{pages: pagesOf(nil)}, kind: arrow.BinaryTypes.String, begun: true, first: &c.data}
			var err error
			if c.dictionary != nil {
				column.dictionary, column.entries = c.dictionary.Values, c.dictionary.Count
				err = column.index()
			}
			var out arrow.ArrayData
			if err == nil {
				out, err = column.Read(9, memory.DefaultAllocator)
			}
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.data.Count, out.Len())
		})
	}
}

// TestByteArraysBeyondOffsets expects an error where 32-bit offsets overflow.
func TestByteArraysBeyondOffsets(t *testing.T) {
	out := newByteArrayBuilder(memory.DefaultAllocator)
	defer out.release()
	out.bytes = math.MaxInt32 - 3
	err := out.reserve(4)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "too large for one batch")
}
