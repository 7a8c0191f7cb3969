package parquet_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// everyType makes rows of all types, with and without nulls.
func everyType(t testing.TB) arrow.RecordBatch {
	t.Helper()
	i32, i64, text := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	optional := func(name string, kind arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: kind, Nullable: true}
	}
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: i64},
		optional("full", arrow.PrimitiveTypes.Float64), optional("text", text), optional("some", text),
		optional("int", i32), optional("at", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}),
		optional("local", &arrow.TimestampType{Unit: arrow.Microsecond}), optional("price", &arrow.Decimal128Type{Precision: 12, Scale: 2}),
		optional("large", &arrow.Decimal128Type{Precision: 30, Scale: 4}), optional("flag", arrow.FixedWidthTypes.Boolean),
		optional("fixed", &arrow.FixedSizeBinaryType{ByteWidth: 4}), optional("day", arrow.FixedWidthTypes.Date32),
		optional("struct", arrow.StructOf(optional("a", i32), optional("b", text))), optional("list", arrow.ListOfField(optional("element", i64))),
		optional("map", arrow.MapOf(text, i32)),
		{Name: "required", Type: text},
		optional("time", arrow.FixedWidthTypes.Time64us),
		optional("bytes", arrow.BinaryTypes.Binary),
	}, nil)
	lines := make([]string, 40)
	for i := range lines {
		some := func(value string) string {
			if i%7 == 3 {
				return "null"
			}
			return value
		}
		lines[i] = fmt.Sprintf(`{"id": %[1]d, "full": %[1]d.5, "text": "x%[2]d", "some": %[3]s, "int": %[4]s, "at": %[5]s, "local": "2026-01-01T00:00:%02[1]d",
			"price": %[6]s, "large": "%[1]d.0001", "flag": %[7]s, "fixed": "AAAA%[8]dw==", "day": "2026-01-%02[9]d", "struct": {"a": %[4]s, "b": "b%[1]d"},
			"list": %[10]s, "map": [{"key": "k", "value": %[1]d}], "required": "r%[1]d", "time": "00:00:%02[1]d", "bytes": "QUFB"}`,
			i, i%5, some(fmt.Sprintf(`"v%d"`, i%6)), some(strconv.Itoa(3*i)), some(fmt.Sprintf(`"2026-01-01T00:00:%02dZ"`, i)),
			some(fmt.Sprintf(`"%d.25"`, i)), some("true"), i%10, i%28+1, some("[1, null, 3]"))
	}
	return table(t, sc, "["+strings.Join(lines, ",")+"]")
}

// footerForms are options of files whose footers are flipped.
func footerForms() map[string]parquettest.Options {
	return map[string]parquettest.Options{
		"dictionaries":     {RowGroupRows: 20},
		"plain":            {RowGroupRows: 20, Codec: parquettest.Uncompressed, Plain: true},
		"second version":   {RowGroupRows: 20, Codec: parquettest.Uncompressed, PageV2: true},
		"plain and second": {RowGroupRows: 20, PageV2: true, Plain: true},
	}
}

// TestFlippedFooter flips bits of footers, which have no checksum: reading fails, or
// returns the original rows. One flip is undetectable: if it changes the field id of a
// column, the file lacks the column, whose values are null if the caller allows that.
func TestFlippedFooter(t *testing.T) {
	want := everyType(t)
	fields := ids(int(want.NumCols()))
	number, absent := 0, 0 // over all forms: few flips result in an unused field id
	for name, opts := range footerForms() {
		good := write(t, opts, want)
		requireEqual(t, want, mustRead(t, open(t, good), parquet.ReadOptions{Fields: fields, Schema: want.Schema()}))
		from := len(good) - 8 - int(binary.LittleEndian.Uint32(good[len(good)-8:]))
		schema := from + bytes.Index(good[from:], []byte("bytes")) // name of the last column
		refused := 0
		for bit := 8 * from; bit < 8*len(good); bit++ {
			if number++; !long() && (bit < 8*schema && number%(31*share) != 0 || bit >= 8*schema && number%(307*share) != 0) {
				continue
			}
			bad := slices.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			got, lacks, err := readAll(t, bad, fields, want.Schema())
			classified(t, err)
			if err != nil {
				refused++
				continue
			}
			require.Equal(t, want.NumRows(), got.NumRows(), "%s, bit %d", name, bit-8*from)
			for i, id := range fields {
				if slices.Contains(lacks, id) {
					absent++
					require.Equal(t, int(got.NumRows()), got.Column(i).NullN())
					continue
				}
				require.True(t, array.Equal(want.Column(i), got.Column(i)), "%s, bit %d of the footer: column %s:\nwant %v\n got %v",
					name, bit-8*from, want.ColumnName(i), want.Column(i), got.Column(i))
			}
		}
		require.Greater(t, refused, 30/share)
	}
	require.True(t, absent > 0 || share > 1)
}

// readAll reads columns as a scan does, and returns the fields that the file lacks.
func readAll(t *testing.T, content []byte, fields []int, sc *arrow.Schema) (out arrow.RecordBatch, lacks []int, err error) {
	t.Helper()
	f, err := parquet.Open(t.Context(), object(t, content), parquet.Options{})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range fields {
		if _, ok := f.Field(id); !ok {
			lacks = append(lacks, id)
		}
	}
	out, err = read(t, f, parquet.ReadOptions{Fields: fields, Schema: sc, NullIfAbsent: true})
	return out, lacks, err
}

func long() bool { return os.Getenv("PENSTOCK_LONG") == "1" }

// TestFlippedPageHeaders flips bits of page headers, which no checksum covers: reading
// fails, or returns the original rows.
func TestFlippedPageHeaders(t *testing.T) {
	want := checksummed()
	number := 0
	for _, name := range ofPyarrow() {
		good, err := os.ReadFile(name)
		require.NoError(t, err)
		f := open(t, good)
		begin, refused := 4, 0
		for group := range f.RowGroups() {
			for _, id := range ids(4) {
				end := begin + int(f.Stored(group, []int{id}))
				headers, err := parquet.PageHeaders(good[begin:end])
				require.NoError(t, err)
				for _, h := range headers {
					for bit := 8 * (begin + h[0]); bit < 8*(begin+h[1]); bit++ {
						if number++; !long() && number%(97*share) != 0 {
							continue
						}
						bad := slices.Clone(good)
						bad[bit/8] ^= 1 << (bit % 8)
						got, err := read(t, open(t, bad), parquet.ReadOptions{Fields: ids(4), Schema: want.Schema(), BatchRows: 64})
						if err != nil {
							refused++
							require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
							continue
						}
						requireEqual(t, want, got)
					}
				}
				begin = end
			}
		}
		require.Greater(t, refused, 5/share)
	}
}

// TestFootersThatGaveOtherRows flips bits of the schema that make a column required, or
// its repetition type unknown, or change the unit of a timestamp.
func TestFootersThatGaveOtherRows(t *testing.T) {
	want := everyType(t)
	fields := ids(int(want.NumCols()))
	for name, c := range map[string]struct {
		form, column string
		behind       int // offset of the byte from the end of the name
		from, to     byte
	}{
		"required, booleans":         {"plain", "\x18\x04flag", -7, 2, 0},
		"required, strings":          {"plain", "\x18\x04text", -7, 2, 0},
		"required, indices":          {"dictionaries", "\x18\x06struct", -9, 2, 0},
		"required, second version":   {"second version", "\x18\x04flag", -7, 2, 0},
		"required, inside a struct":  {"plain and second", "\x18\x01a", -4, 2, 0},
		"neither, strings":           {"plain", "\x18\x04text", -7, 2, 6},
		"neither, booleans":          {"dictionaries", "\x18\x04flag", -7, 2, 10},
		"another unit":               {"dictionaries", "\x18\x02at", 8, 0x2c, 0x3c},
		"another unit of local time": {"plain", "\x18\x05local", 8, 0x2c, 0x3c},
	} {
		bad := write(t, footerForms()[c.form], want)
		from := len(bad) - 8 - int(binary.LittleEndian.Uint32(bad[len(bad)-8:]))
		at := from + bytes.Index(bad[from:], []byte(c.column)) + len(c.column) + c.behind
		require.Equal(t, c.from, bad[at], "%s: %q", name, bad[at-12:at+12])
		bad[at] = c.to
		_, _, err := readAll(t, bad, fields, want.Schema())
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", name, err)
		if c.to > 4 { // not a valid footer
			_, err = parquet.Open(t.Context(), object(t, bad), parquet.Options{})
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", name, err)
		}
	}
}

// TestHeadersThatGaveOtherRows flips the encoding of strings in a page header, and the
// number of levels that end the last list of a chunk.
func TestHeadersThatGaveOtherRows(t *testing.T) {
	bad, err := os.ReadFile(ofPyarrow()[2])
	require.NoError(t, err)
	bad[1290] ^= 2
	_, err = read(t, open(t, bad), parquet.ReadOptions{Fields: ids(4), Schema: checksummed().Schema(), BatchRows: 64})
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)

	for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String} {
		sc := arrow.NewSchema([]arrow.Field{{Name: "l", Type: list(kind, true), Nullable: true}}, nil)
		values, err := fromJSON(sc.Field(0).Type, map[arrow.Type]string{
			arrow.INT64: `[[1, 2], [1, 2, 1, 2, 1, 2]]`, arrow.STRING: `[["a", "b"], ["a", "b", "a", "b", "a", "b"]]`,
		}[kind.ID()])
		require.NoError(t, err)
		for _, opts := range footerForms() {
			bad := write(t, opts, single(sc, values))
			end := chunkEnds(t, bad, 1)[0]
			headers, err := parquet.PageHeaders(bad[4:end])
			require.NoError(t, err)
			last := headers[len(headers)-1]
			at := 4 + last[0] + bytes.IndexByte(bad[4+last[0]:4+last[1]], 2*8) // eight levels
			bad[at] = 2 * 7
			_, err = read(t, open(t, bad), parquet.ReadOptions{Fields: ids(1), Schema: sc})
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", kind, err)
		}
	}
}
