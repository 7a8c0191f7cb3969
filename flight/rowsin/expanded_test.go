package rowsin

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// A call whose rows are many times what came ends before it fills the spool.
//
// spec: stage-97
func TestRowsThatFewBytesStandForAreBounded(t *testing.T) {
	const rows, length = 100_000, 1 << 18
	code, numbers := arrow.PrimitiveTypes.Int8, &arrow.Decimal128Type{Precision: 38}
	decimals := &arrow.DictionaryType{IndexType: code, ValueType: numbers}
	zeros := make([]byte, 1<<20)
	dictionary := &arrow.DictionaryType{IndexType: code, ValueType: arrow.BinaryTypes.String}
	one := array.MakeFromData(array.NewData(numbers, 1, []*memory.Buffer{nil, memory.NewBufferBytes(zeros[:16])}, nil, 0, 0))
	for name, c := range map[string]struct {
		column  arrow.Array
		batches int
		options []ipc.Option
	}{
		"dictionary":            {column: repeated(dictionary, rows, strings.Repeat("x", length)), batches: 1},
		"views":                 {column: repeated(arrow.BinaryTypes.StringView, rows, strings.Repeat("x", length)), batches: 1},
		"Zstandard":             {numbersOf(zeros), 400, []ipc.Option{ipc.WithZstd()}},
		"dictionary of numbers": {array.NewDictionaryArray(decimals, numbersOf(zeros), one), 400, []ipc.Option{ipc.WithLZ4()}},
	} {
		t.Run(name, func(t *testing.T) {
			schema := arrow.NewSchema([]arrow.Field{{Name: "column", Type: c.column.DataType()}}, nil)
			b := array.NewRecordBatch(schema, []arrow.Array{c.column}, int64(c.column.Len()))
			sent := messagesOf(t, slices.Repeat([]arrow.RecordBatch{b}, c.batches), c.options...)
			read := 0
			err := callOf(t, sent).read(minMessage, budget.New(1<<30), func(arrow.RecordBatch) { read++ })
			require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "expand to")
			require.Less(t, read, c.batches)
		})
	}
}

// numbersOf returns an array of bytes.
func numbersOf(bytes []byte) arrow.Array {
	return array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Int8, len(bytes), []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0))
}

// repeated returns an array whose rows have one text, which it has once.
func repeated(typed arrow.DataType, rows int, text string) arrow.Array {
	values := array.NewStringBuilder(memory.DefaultAllocator)
	values.Append(text)
	one := values.NewArray()
	if d, ok := typed.(*arrow.DictionaryType); ok {
		codes := array.NewInt8Builder(memory.DefaultAllocator)
		codes.AppendValues(make([]int8, rows), nil)
		return array.NewDictionaryArray(d, codes.NewArray(), one)
	}
	b := array.NewStringViewBuilder(memory.DefaultAllocator)
	b.Append(text)
	view := b.NewArray().Data()
	headers := bytes.Repeat(view.Buffers()[1].Bytes()[:arrow.ViewHeaderSizeBytes], rows)
	buffers := append([]*memory.Buffer{nil, memory.NewBufferBytes(headers)}, view.Buffers()[2:]...)
	return array.MakeFromData(array.NewData(typed, rows, buffers, nil, 0, 0))
}
