package parquet_test

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// footerBytes returns the length of the footer that a file declares.
func footerBytes(content []byte) int64 {
	return int64(binary.LittleEndian.Uint32(content[len(content)-8:]))
}

// withFooter returns a file of a footer and nothing else.
func withFooter(footer []byte) []byte {
	out := append([]byte("PAR1"), footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), "PAR1"...)
}

func TestFooterLimit(t *testing.T) {
	content := write(t, parquettest.Options{}, numbers(t, 0, 100))
	length := footerBytes(content)
	_, err := parquet.ReadFooter(t.Context(), object(t, content), parquet.FooterLimits{Bytes: length})
	require.NoError(t, err)
	_, err = parquet.ReadFooter(t.Context(), object(t, content), parquet.FooterLimits{Bytes: length - 1})
	require.ErrorContains(t, err, "bytes, more than max_metadata allows, which is")
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.Equal(t, location, fault.As(err).File)
}

// TestFooterIsCharged expects that a footer that takes a second read is charged before
// it, and for its decoded size.
func TestFooterIsCharged(t *testing.T) {
	content := write(t, parquettest.Options{RowGroupRows: 5, Codec: parquettest.Uncompressed}, numbers(t, 0, 1500))
	length := footerBytes(content)
	require.Greater(t, length, int64(64<<10))
	enough := budget.New(1 << 30)
	footer, err := parquet.ReadFooter(t.Context(), object(t, content), parquet.FooterLimits{Budget: enough})
	require.NoError(t, err)
	require.GreaterOrEqual(t, footer.Bytes(), 8*length)
	require.Equal(t, length+footer.Bytes(), enough.Peak())
	require.Zero(t, enough.Used())
	for _, small := range []int64{length - 1, length + footer.Bytes() - 1} {
		b := budget.New(small)
		_, err := parquet.ReadFooter(t.Context(), object(t, content), parquet.FooterLimits{Budget: b})
		require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
		require.Zero(t, b.Used())
	}
}

// TestFooterWithFalseLengths expects that lengths in a footer are checked before the
// decoder allocates memory for them.
func TestFooterWithFalseLengths(t *testing.T) {
	list := func(field, kind byte, n uint64) []byte {
		return binary.AppendUvarint([]byte{field<<4 | 9, 0xf0 | kind}, n)
	}
	const many = 100 << 20
	for name, footer := range map[string][]byte{
		"schema":     list(2, 12, many),
		"row groups": list(4, 12, many),
		"columns":    append(append(list(4, 12, 1), list(1, 12, many)...), make([]byte, 100)...),
		"paths":      slices.Concat(list(4, 12, 1), list(1, 12, 1), []byte{3<<4 | 12}, list(3, 8, many)),
		"text":       binary.AppendUvarint([]byte{6<<4 | 8}, many),
		"map":        append(binary.AppendUvarint([]byte{11<<4 | 11}, many), 0x88),
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, withFooter(footer))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := parquet.ReadFooter(t.Context(), o, parquet.FooterLimits{})
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, "claims more than it holds")
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20))
		})
	}
}

// TestDeepSchemas expects that a footer with millions of nested columns is refused:
// following them would exhaust the stack, which ends the process.
func TestDeepSchemas(t *testing.T) {
	of := func(depth int) []byte {
		out := binary.AppendUvarint([]byte{0x15, 2, 0x19, 0xfc}, uint64(depth+2)) // version, schema
		for range depth + 1 {
			out = append(out, 0x35, 0, 0x18, 1, 'a', 0x15, 2, 0) // required, a name, one child
		}
		out = append(out, 0x15, 2, 0x25, 0, 0x18, 1, 'a', 0) // an INT64 column
		return withFooter(append(out, 0x16, 0, 0x19, 0x0c, 0))
	}
	f := open(t, of(255))
	require.Len(t, f.Fields(), 1)
	for _, depth := range []int{256, 4_000_000 / share} {
		_, err := parquet.ReadFooter(t.Context(), object(t, of(depth)), parquet.FooterLimits{})
		require.ErrorContains(t, err, "columns are nested too deeply")
		require.Equal(t, fault.Corrupt, fault.KindOf(err))
	}
}
