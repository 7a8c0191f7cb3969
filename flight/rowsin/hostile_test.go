package rowsin

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/damage"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// allocated returns the bytes that were allocated so far.
func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()) //nolint:gosec // far fewer
}

// patched is a flatbuffer whose places the tests change.
type patched []byte

func (p patched) u32(at int) int { return int(binary.LittleEndian.Uint32(p[at:])) }

// names returns the vtable of a table.
func (p patched) names(table int) int { return table - int(int32(p.u32(table))) } //nolint:gosec // two's complement

// field returns the place of a field that a table has.
func (p patched) field(table, slot int) int {
	return table + int(binary.LittleEndian.Uint16(p[p.names(table)+4+2*slot:]))
}

// inner returns the table in a field.
func (p patched) inner(table, slot int) int {
	at := p.field(table, slot)
	return at + p.u32(at)
}

// cut makes the vtable of a table end within the entry of a slot. The flatbuffers library still finds the field.
func (p patched) cut(table, slot int) {
	binary.LittleEndian.PutUint16(p[p.names(table):], uint16(4+2*slot+1)) //nolint:gosec // small
}

// header returns the table in a message.
func (p patched) header() int { return p.inner(p.u32(0), slotHeader) }

// messagesOf returns what a client sends for batches.
func messagesOf(t testing.TB, batches []arrow.RecordBatch, options ...ipc.Option) []*message {
	var sent []*arrowflight.FlightData
	w := arrowflight.NewRecordWriter(collected{&sent}, append(options, ipc.WithSchema(batches[0].Schema()))...)
	for _, b := range batches {
		require.NoError(t, w.Write(b))
	}
	var out []*message
	for _, m := range sent {
		out = append(out, &message{header: m.GetDataHeader(), body: m.GetDataBody()})
	}
	return out
}

// dictionaryOf returns a batch of one dictionary column.
func dictionaryOf(values ...string) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, v := range values {
		if err := b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(v); err != nil { //nolint:forcetypeassert // the schema above
			panic(err)
		}
	}
	return b.NewRecordBatch()
}

// compressedClaim returns messages with a compressed buffer that claims a size.
func compressedClaim(t testing.TB, claim int64) []*message {
	out := messagesOf(t, []arrow.RecordBatch{batchtest.IDs(0, 4096)}, ipc.WithZstd())
	binary.LittleEndian.PutUint64(out[1].body, uint64(claim)) //nolint:gosec // two's complement
	return out
}

// Headers that the flatbuffers library reads otherwise than a careful reader does, and sizes that clients claim, are refused
// before anything is allocated for them.
//
// spec: stage-110
func TestHostileMessagesTakeNoMemory(t *testing.T) {
	const fieldsOfSchema = 1
	cases := map[string]func() []*message{
		"odd vtable of a schema": func() []*message {
			out := messagesOf(t, []arrow.RecordBatch{batchtest.IDs(0, 4)})
			p := patched(out[0].header)
			fields := p.inner(p.header(), fieldsOfSchema)
			binary.LittleEndian.PutUint32(p[fields:], 1<<31-1)
			p.cut(p.header(), fieldsOfSchema)
			return out
		},
		"offset that wraps": func() []*message {
			out := messagesOf(t, []arrow.RecordBatch{batchtest.IDs(0, 4)})
			p := patched(out[0].header)
			binary.LittleEndian.PutUint32(p[p.field(p.header(), fieldsOfSchema):], 1<<32-3)
			return out
		},
		"hidden compression of 1 GiB": func() []*message {
			out := compressedClaim(t, 1<<30)
			p := patched(out[1].header)
			p.cut(p.header(), slotCompression)
			return out
		},
		"hidden compression of 1 TiB": func() []*message {
			out := compressedClaim(t, 1<<40)
			p := patched(out[1].header)
			p.cut(p.header(), slotCompression)
			return out
		},
		"compression of 1 TiB":            func() []*message { return compressedClaim(t, 1<<40) },
		"a size that is not the output's": func() []*message { return compressedClaim(t, 4096*8-8) },
		"window of 512 MiB": func() []*message {
			out := compressedClaim(t, 4096*8)
			frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 3 | 1<<6, 0, 0, 7} // one last block of a repeated byte, too short
			p := patched(out[1].header)
			buffers := p.inner(p.header(), slotBuffers) + 4
			last := buffers + flatPair
			out[1].body = append(out[1].body[:8], append(frame, make([]byte, 6)...)...)
			for at, n := range map[int]int{buffers: 0, buffers + 8: 0, last: 0, last + 8: 8 + len(frame)} {
				binary.LittleEndian.PutUint64(p[at:], uint64(n)) //nolint:gosec // small
			}
			return out
		},
		"hidden delta of a dictionary": func() []*message {
			out := messagesOf(t, []arrow.RecordBatch{dictionaryOf("a"), dictionaryOf("a", "b")}, ipc.WithDictionaryDeltas(true))
			cut := 0
			for _, m := range out {
				p := patched(m.header)
				names := p.names(p.header())
				isDictionary := p[p.field(p.u32(0), slotHeaderType)] == headerDictionaryBatch
				if isDictionary && int(binary.LittleEndian.Uint16(p[names:])) >= 4+2*dictionarySlots && binary.LittleEndian.Uint16(p[names+4+2*slotIsDelta:]) != 0 {
					p.cut(p.header(), slotIsDelta)
					cut++
				}
			}
			require.Equal(t, 1, cut)
			return out
		},
	}
	for name, messages := range cases {
		t.Run(name, func(t *testing.T) {
			sent := callOf(t, append(messages(), &message{metadata: []byte(`{"rows": 4}`)}))
			before := allocated()
			err := sent.read(minMessage, budget.New(1<<30), nil)
			require.Less(t, allocated()-before, int64(16<<20))
			require.Error(t, err)
			require.Contains(t, []fault.Kind{fault.Invalid, fault.Exhausted}, fault.KindOf(err), "%v", err)
		})
	}
}

// call is a call as its client makes it.
type call struct {
	first    *First
	messages []*message // after the first one
}

// callOf returns a call with messages.
func callOf(t testing.TB, messages []*message) *call {
	text, err := proto.Marshal(&arrowflight.FlightData{DataHeader: messages[0].header, DataBody: messages[0].body})
	require.NoError(t, err)
	first := &First{}
	require.NoError(t, first.Unmarshal(mem.BufferSlice{mem.SliceBuffer(text)}))
	return &call{first, messages[1:]}
}

// RecvMsg implements Source.
func (c *call) RecvMsg(m any) error {
	if len(c.messages) == 0 {
		return io.EOF
	}
	*m.(*message) = *c.messages[0] //nolint:forcetypeassert // nothing else is received
	c.messages = c.messages[1:]
	return nil
}

// Wait implements Pace.
func (*call) Wait(_ context.Context, done <-chan struct{}, _ int64) error {
	<-done
	return nil
}

// read reads all batches, of messages that have at most a number of bytes.
func (c *call) read(limit int64, memory *budget.Budget, use func(arrow.RecordBatch)) error {
	defer c.first.Close()
	if err := c.first.Charge(memory); err != nil {
		return err
	}
	ctx := context.Background()
	rows, err := Open(ctx, c, c.first, Options{Limit: limit, Pace: c, Budget: memory})
	if err != nil {
		return err
	}
	defer rows.Close()
	reader := rows.Reader(ctx, func() error { return nil })
	defer reader.Release()
	for reader.Next() {
		if use != nil {
			use(reader.RecordBatch())
		}
	}
	return reader.Err()
}

// plainly returns the batches of messages as the Arrow library reads them.
func plainly(t testing.TB, messages []*message) []arrow.RecordBatch {
	r, err := ipc.NewReaderFromMessageReader(&plainMessages{messages: messages})
	require.NoError(t, err)
	defer r.Release()
	var out []arrow.RecordBatch
	for r.Next() {
		r.RecordBatch().Retain()
		out = append(out, r.RecordBatch())
	}
	require.NoError(t, r.Err())
	return out
}

// plainMessages is an ipc.MessageReader of messages as they are.
type plainMessages struct{ messages []*message }

// Message implements ipc.MessageReader.
func (p *plainMessages) Message() (*ipc.Message, error) {
	if len(p.messages) == 0 {
		return nil, io.EOF
	}
	m := p.messages[0]
	p.messages = p.messages[1:]
	return ipc.NewMessage(memory.NewBufferBytes(m.header), memory.NewBufferBytes(m.body)), nil
}

// Retain implements ipc.MessageReader.
func (*plainMessages) Retain() {}

// Release implements ipc.MessageReader.
func (*plainMessages) Release() {}

// validForms returns messages that clients send: many types, dictionaries that are replaced, compression.
func validForms(t testing.TB) [][]*message {
	var out [][]*message
	for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}, {ipc.WithZstd(), ipc.WithMinSpaceSavings(0.5)}} {
		var nested []*message
		for _, m := range nestedMessages(t, options...) {
			nested = append(nested, &message{header: m.GetDataHeader(), body: m.GetDataBody()})
		}
		out = append(
			out, nested, messagesOf(t, []arrow.RecordBatch{batchtest.IDs(0, 10_000), batchtest.IDs(0, 0), batchtest.IDs(5, 7)}, options...),
			messagesOf(t, []arrow.RecordBatch{dictionaryOf("a", "b", "a"), dictionaryOf("c")}, options...),
		)
	}
	for _, b := range kindsOfArrow(t) {
		out = append(out, messagesOf(t, []arrow.RecordBatch{b}))
	}
	return out
}

// cloned returns copies, so that reading changes nothing.
func cloned(messages []*message) []*message {
	var out []*message
	for _, m := range messages {
		c := damage.Message{Header: m.header, Body: m.body}.Clone()
		out = append(out, &message{header: c.Header, body: c.Body})
	}
	return out
}

// What clients send is read as the Arrow library reads it.
//
// spec: stage-67
func TestMessagesAreReadAsArrowReadsThem(t *testing.T) {
	for i, messages := range validForms(t) {
		want := plainly(t, cloned(messages))
		sent, rows, n := append(cloned(messages), endOf(want)), int64(0), 0
		require.NoError(t, callOf(t, sent).read(minMessage, budget.New(1<<30), func(b arrow.RecordBatch) {
			require.True(t, want[n].Schema().Equal(b.Schema()), i)
			require.True(t, array.RecordEqual(want[n], b), i)
			rows += b.NumRows()
			n++
		}), i)
		require.Len(t, want, n)
		require.NotZero(t, rows)
	}
}

// endOf returns the message after the last batch.
func endOf(all []arrow.RecordBatch) *message {
	rows := int64(0)
	for _, b := range all {
		rows += b.NumRows()
	}
	return &message{metadata: fmt.Appendf(nil, `{"rows": %d}`, rows)}
}

// checkDamaged reads messages of which one was damaged: it may fail as the client's failure, and allocates what was charged.
func checkDamaged(t testing.TB, messages []*message, end *message, pick damage.Pick) (accepted bool) {
	sent := cloned(messages)
	one := sent[pick(len(sent))]
	damage.Change(damage.Message{Header: one.header, Body: one.body}, pick)
	return checkCharged(t, sent, end)
}

// Messages that are damaged on purpose allocate no more than was charged, and end their call as the client's failure.
//
// spec: stage-110
func TestDamagedMessagesStayWithinTheirCharge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	forms := validForms(t)
	tries, accepted := 4000, 0
	if os.Getenv("PENSTOCK_LONG") != "" {
		tries *= 50
	}
	for n := range tries {
		form := forms[n%len(forms)]
		if checkDamaged(t, form, endOf(plainly(t, cloned(form))), random.IntN) {
			accepted++
		}
	}
	require.Greater(t, accepted, tries/100)
	require.Less(t, accepted, tries*9/10)
}

func FuzzDamagedMessages(f *testing.F) {
	forms := validForms(f)
	for i := range forms {
		f.Add(uint8(i), []byte{0, 1, 2, 3, 4, 5, 6, 7}) //nolint:gosec // few
	}
	f.Fuzz(func(t *testing.T, form uint8, choices []byte) {
		messages := forms[int(form)%len(forms)]
		in := bytes.NewReader(choices)
		checkDamaged(t, messages, endOf(plainly(t, cloned(messages))), func(n int) int {
			var two [2]byte
			_, _ = io.ReadFull(in, two[:]) // zero after the end
			return int(binary.LittleEndian.Uint16(two[:])) % n
		})
	})
}

// Only the descriptor of a first message is copied, also if it comes last.
//
// spec: stage-111
func TestFirstMessagesAreNotCopied(t *testing.T) {
	const command = `{"stage": {"table": "ml.history"}}`
	described, err := proto.Marshal(&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(command)})
	require.NoError(t, err)
	text := protowire.AppendBytes(protowire.AppendTag(nil, fieldBody, protowire.BytesType), make([]byte, 8<<20))
	text = protowire.AppendBytes(protowire.AppendTag(text, fieldDescriptor, protowire.BytesType), described)
	before := allocated()
	first := &First{}
	require.NoError(t, first.Unmarshal(mem.BufferSlice{mem.SliceBuffer(text)}))
	require.Less(t, allocated()-before, int64(1<<20))
	require.JSONEq(t, command, string(first.Descriptor.GetCmd()))
	require.NoError(t, first.Charge(budget.New(1<<30)))
	m, err := first.open(t.Context())
	require.NoError(t, err)
	require.Len(t, m.body, 8<<20)
	long := protowire.AppendBytes(protowire.AppendTag(nil, fieldDescriptor, protowire.BytesType), make([]byte, maxDescriptor+1))
	require.Equal(t, fault.Invalid, fault.KindOf(first.Unmarshal(mem.BufferSlice{mem.SliceBuffer(long)})))
}
