package rowsin

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
)

// kindsOfArrow returns batches of types that validForms does not have otherwise, also of those that tables do not have.
func kindsOfArrow(t testing.TB) []arrow.RecordBatch {
	texts, small := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Uint8
	coded := func(index, values arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: index, ValueType: values}
	}
	var out []arrow.RecordBatch
	for _, c := range []struct {
		typed arrow.DataType
		value string
	}{
		{arrow.FixedWidthTypes.Float16, `1`},
		{arrow.FixedWidthTypes.Time32s, `"12:13:14"`},
		{arrow.FixedWidthTypes.Date64, `"2026-11-27"`},
		{arrow.FixedWidthTypes.Duration_ns, `7`},
		{arrow.FixedWidthTypes.MonthInterval, `{"months": 7}`},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}, `"2026-11-27T10:11:12Z"`},
		{&arrow.Decimal32Type{Precision: 9, Scale: 2}, `"1.25"`},
		{&arrow.Decimal64Type{Precision: 18, Scale: 2}, `"1.25"`},
		{&arrow.Decimal256Type{Precision: 76, Scale: 2}, `"1.25"`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `"YWJj"`},
		{arrow.BinaryTypes.BinaryView, `"YSB0ZXh0IHRoYXQgaXMgbG9uZ2VyIHRoYW4gdHdlbHZl"`},
		{arrow.ListViewOf(texts), `["a", "b"]`},
		{arrow.LargeListViewOf(small), `[1, 2]`},
		{arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, texts), `"a"`},
		{arrow.ListOf(arrow.ListOf(arrow.StructOf(arrow.Field{Name: "x", Type: small, Nullable: true}))), `[[{"x": 1}], null]`},
		{coded(arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64), `7`},
		{coded(small, &arrow.FixedSizeBinaryType{ByteWidth: 3}), `"YWJj"`},
		{arrow.ListOf(coded(small, texts)), `["a", null]`},
		{arrow.MapOf(coded(small, texts), coded(small, arrow.BinaryTypes.Binary)), `[{"key": "k", "value": "YQ=="}]`},
		{arrow.StructOf(arrow.Field{Name: "x", Type: coded(small, texts), Nullable: true}), `{"x": "a"}`},
		{extensions.NewUUIDType(), `"8b63f1c7-1f5b-4c7f-9a3e-111111111111"`},
		{extensions.NewBool8Type(), `true`},
	} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: c.typed, Nullable: true}}, nil)
		text := `[{"x": ` + c.value + `}, {"x": null}, {"x": ` + c.value + `}]`
		b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(text))
		require.NoError(t, err, c.typed)
		out = append(out, b)
	}
	return out
}

// convertedLimit is the most bytes that a test converts a batch to.
const convertedLimit = 16 << 20

// checkConverted converts a batch as stage does, if tables have its types: that allocates what it says, and all values can be read.
func checkConverted(t testing.TB, b arrow.RecordBatch) {
	c, err := conform.New(b.Schema())
	if err != nil {
		return
	}
	most, err := c.Bytes(b)
	if err != nil || most > convertedLimit {
		return
	}
	allocator := &batchtest.Counting{Allocator: memory.DefaultAllocator}
	out, err := c.Batch(b, allocator)
	if allocator.Bytes > most {
		t.Fatalf("%d bytes were allocated to convert %s, and %d announced: %v", allocator.Bytes, b.Schema(), most, err)
	}
	if err != nil {
		return
	}
	defer out.Release()
	if err := array.ValidateRecordFull(out); err != nil {
		t.Fatalf("%s was converted to what is not valid: %v", b.Schema(), err)
	}
}

// checkCharged reads messages, of which any may be damaged, with a small limit, so that what is reserved before a message comes does
// not hide what it allocates. Each message may allocate the most that was ever charged. It reports whether they were accepted.
func checkCharged(t testing.TB, sent []*message, end *message) (accepted bool) {
	const limit, slack = 256 << 10, 1 << 20
	charge := budget.New(1 << 30)
	received := callOf(t, append(sent, end))
	before := allocated()
	err := received.read(limit, charge, func(b arrow.RecordBatch) {
		converted := allocated()
		checkConverted(t, b)
		before += allocated() - converted
	})
	if took := allocated() - before; took > slack+int64(len(sent))*charge.Peak() {
		t.Fatalf("%d bytes were allocated, and at most %d charged: %v", took, charge.Peak(), err)
	}
	if err != nil && !errors.Is(err, io.EOF) && fault.KindOf(err) == fault.Internal {
		t.Fatalf("the server's failure: %v", err)
	}
	if charge.Used() != 0 {
		t.Fatalf("%d bytes stay charged", charge.Used())
	}
	return err == nil
}

// FuzzMessages replaces one message of those that clients send by any bytes: a schema, a dictionary or a batch.
func FuzzMessages(f *testing.F) {
	forms := validForms(f)
	var ends []*message
	for i, form := range forms {
		ends = append(ends, endOf(plainly(f, cloned(form))))
		for at, m := range form {
			f.Add(uint8(i), uint8(at), m.header, m.body) //nolint:gosec // few
		}
	}
	f.Fuzz(func(t *testing.T, form, at uint8, header, body []byte) {
		n := int(form) % len(forms)
		sent := cloned(forms[n])
		*sent[int(at)%len(sent)] = message{header: slices.Clone(header), body: slices.Clone(body)}
		checkCharged(t, sent, ends[n])
	})
}

// FuzzServed replaces one message of those that a server sends by any bytes. What is accepted is valid, and no more memory is
// allocated than what the caller charges, and copies of the headers.
func FuzzServed(f *testing.F) {
	forms := append(validForms(f), messagesOf(f, []arrow.RecordBatch{dictionaryOf("a"), dictionaryOf("b")}))
	for i, form := range forms {
		for at, m := range form {
			f.Add(uint8(i), uint8(at), m.header, m.body) //nolint:gosec // few
		}
	}
	f.Fuzz(func(t *testing.T, form, at uint8, header, body []byte) {
		const slack = 2 << 20
		sent := cloned(forms[int(form)%len(forms)])
		*sent[int(at)%len(sent)] = message{header: slices.Clone(header), body: slices.Clone(body)}
		before, batches := allocated(), int64(0)
		_, err := readServed(sent, func(b arrow.RecordBatch) {
			batches++
			if err := array.ValidateRecordFull(b); err != nil {
				t.Fatalf("a batch of %s is not valid: %v", b.Schema(), err)
			}
		})
		if took := allocated() - before; took > slack+(batches+1)*ServedMemory(minMessage)+32*int64(len(header)) {
			t.Fatalf("%d bytes were allocated for %d batches: %v", took, batches, err)
		}
	})
}

// FuzzHeaders checks that a header that is accepted has the same meaning once it is written again.
func FuzzHeaders(f *testing.F) {
	for _, form := range validForms(f) {
		for _, m := range form {
			f.Add(m.header, len(m.body))
		}
	}
	f.Fuzz(func(t *testing.T, header []byte, body int) {
		const most = 1 << 20
		m := &message{header: header, body: make([]byte, uint(body)%most)}
		if h, err := m.inspect(); err == nil {
			codec := h.codec
			h.codec = notCompressed // encode writes headers of bodies without compression
			again, err := (&message{header: h.encode(), body: m.body}).inspect()
			require.NoError(t, err)
			require.Equal(t, h, again, "codec %d", codec)
		}
		schema := &message{header: header}
		if schema.rewriteSchema() != nil {
			return
		}
		again := &message{header: schema.header}
		require.NoError(t, again.rewriteSchema())
		require.Equal(t, schema.header, again.header)
	})
}
