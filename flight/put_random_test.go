package flight

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
)

// cannedPut is a client's side of a call that has been recorded.
type cannedPut struct {
	grpc.ServerStream
	messages []*putMessage
}

// RecvMsg implements grpc.ServerStream.
func (c *cannedPut) RecvMsg(m any) error {
	if len(c.messages) == 0 {
		return io.EOF
	}
	*m.(*putMessage) = *c.messages[0] //nolint:forcetypeassert // nothing else is received
	c.messages = c.messages[1:]
	return nil
}

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
		var messages []*putMessage
		for _, m := range forms[n%len(forms)] {
			messages = append(messages, &putMessage{header: append([]byte{}, m.GetDataHeader()...), body: append([]byte{}, m.GetDataBody()...)})
		}
		damaged := messages[random.IntN(len(messages))]
		for range 1 + random.IntN(3) {
			of := damaged.body
			if random.IntN(3) == 0 || len(of) == 0 {
				of = damaged.header
			}
			of[random.IntN(len(of))] = [5]byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
		}
		messages = append(messages, &putMessage{metadata: []byte(`{"rows": 3}`)})
		if err := readPut(messages, damaged != messages[0]); err != nil {
			refused++
			require.NotEqual(t, fault.Internal, fault.KindOf(err), "%v", err)
		}
	}
	require.Greater(t, refused, tries/10)
	require.Less(t, refused, tries)
}

// readPut reads the rows of recorded messages, and all values if the schema is as it was: texts of a decimal of any scale have any size.
func readPut(messages []*putMessage, values bool) error {
	ctx := context.Background()
	limit := budget.New(1 << 30)
	held, err := limit.Reserve("rows that a client sends", messages[0].size())
	if err != nil {
		return err
	}
	defer held.Release()
	rows, err := openPut(ctx, &cannedPut{messages: messages[1:]}, firstMessage{messages[0], held}, limit)
	if err != nil {
		return err
	}
	defer rows.close()
	rows.limit = maxPutMessage
	rows.slot = &putSlot{slots: newPlanSlots(1, 100, time.Now), claim: &limits.Claim{}, timeout: putTimeout, clock: time.Now}
	b, err := rows.batch()
	if err != nil {
		return err
	}
	defer b.Release()
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
