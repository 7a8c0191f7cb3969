package rowsin

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
)

// nestedMessages returns the messages of batches with columns of many types.
func nestedMessages(t testing.TB, options ...ipc.Option) []*arrowflight.FlightData {
	texts := arrow.BinaryTypes.String
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "codes", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: texts}, Nullable: true},
		{Name: "lists", Type: arrow.ListOf(texts), Nullable: true},
		{Name: "large", Type: arrow.LargeListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "views", Type: arrow.BinaryTypes.StringView, Nullable: true},
		{Name: "fixed", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float64), Nullable: true},
		{Name: "structs", Type: arrow.StructOf(arrow.Field{Name: "a", Type: arrow.BinaryTypes.LargeBinary, Nullable: true}), Nullable: true},
		{Name: "maps", Type: arrow.MapOf(texts, arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "yes", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "money", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}, Nullable: true},
	}, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[
		{"codes": "a", "lists": ["x", null, "yz"], "large": [1, 2], "views": "a text that is longer than twelve", "fixed": [1, 2], "structs": {"a": "YWJj"}, "maps": [{"key": "k", "value": 1}], "yes": true, "money": "1.25"},
		{"codes": null, "lists": [], "large": null, "views": "short", "fixed": null, "structs": null, "maps": [], "yes": null, "money": null},
		{"codes": "b", "lists": null, "large": [], "views": null, "fixed": [3, 4], "structs": {"a": null}, "maps": null, "yes": false, "money": "7.00"}
	]`))
	require.NoError(t, err)
	var sent []*arrowflight.FlightData
	writer := arrowflight.NewRecordWriter(collected{&sent}, append(options, ipc.WithSchema(schema))...)
	require.NoError(t, writer.Write(b))
	return sent
}

// Random damage to a batch ends its call as a failure of the client, or changes values: all that is read after validation is
// there.
//
// spec: stage-67
func TestRandomDamageBreaksNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	const tries = 1500
	forms := [][]*arrowflight.FlightData{nestedMessages(t), nestedMessages(t, ipc.WithZstd())}
	for n := range tries {
		var messages []*message
		for _, m := range forms[n%len(forms)] {
			messages = append(messages, &message{header: append([]byte{}, m.GetDataHeader()...), body: append([]byte{}, m.GetDataBody()...)})
		}
		damaged := messages[random.IntN(len(messages))]
		for range 1 + random.IntN(3) {
			of := damaged.body
			if random.IntN(3) == 0 || len(of) == 0 {
				of = damaged.header
			}
			of[random.IntN(len(of))] = [5]byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
		}
		messages = append(messages, &message{metadata: []byte(`{"rows": 3}`)})
		values := damaged != messages[0] // texts of a decimal of any scale have any size
		var conversion error
		err := callOf(t, messages).read(maxMessage, budget.New(1<<30), func(b arrow.RecordBatch) { conversion = cmp.Or(conversion, converted(b, values)) })
		if err = cmp.Or(err, conversion); err != nil {
			refused++
			require.NotEqual(t, fault.Internal, fault.KindOf(err), "%v", err)
		}
	}
	require.Greater(t, refused, tries/10)
	require.Less(t, refused, tries)
}

// Each damaged byte of a batch ends its call as a failure of the client, or changes values.
//
// spec: stage-67
func TestNoDamagedByteIsAFailureOfTheServer(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"text": "abc"}, {"text": "de"}, {"text": "fgh"}]`))
	require.NoError(t, err)
	whole := messagesOf(t, []arrow.RecordBatch{b})
	refused := 0
	read := func(change func(*message)) {
		sent := append(cloned(whole), endOf([]arrow.RecordBatch{b}))
		change(sent[1])
		if err := callOf(t, sent).read(minMessage, budget.New(1<<30), nil); err != nil {
			refused++
			require.Contains(t, []fault.Kind{fault.Invalid, fault.Exhausted, fault.Corrupt}, fault.KindOf(err), err)
		}
	}
	for at := range whole[1].body {
		for _, to := range []byte{0xff, 0x7f, 0} {
			read(func(m *message) { m.body[at] = to })
		}
	}
	for at := range whole[1].header {
		read(func(m *message) { m.header[at] = 0xff })
	}
	require.Greater(t, refused, 10)
}

// converted reads all values of a batch, as it is and as stage converts it. Without values, it only converts the batch.
func converted(b arrow.RecordBatch, values bool) error {
	use := func(b arrow.RecordBatch) {
		for _, c := range b.Columns() {
			for i := range c.Len() {
				if values {
					_ = c.ValueStr(i)
				}
			}
		}
	}
	use(b)
	one, err := conform.New(b.Schema())
	if err != nil {
		return err
	}
	out, err := one.Batch(b, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	defer out.Release()
	use(out)
	return nil
}
