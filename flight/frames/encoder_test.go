package frames

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/batch"
)

// recorder keeps the messages that the Arrow library's own writer sends.
type recorder struct{ messages [][]byte }

func (r *recorder) Send(m *arrowflight.FlightData) error {
	b, err := proto.Marshal(m)
	r.messages = append(r.messages, b)
	return err
}

// everyType returns a batch with a column of each kind that streams have.
func everyType(t testing.TB, mem memory.Allocator) arrow.RecordBatch {
	element := arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i32", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "i64", Type: arrow.PrimitiveTypes.Int64},
		{Name: "f32", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "yes", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}, Nullable: true},
		{Name: "list", Type: arrow.ListOfField(element), Nullable: true},
		{Name: "all null", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "pair", Type: arrow.StructOf(element, arrow.Field{Name: "word", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
		{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "packed", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	for i := range 100 {
		row := fmt.Sprintf(`{"i32": %d, "i64": %d, "f32": %d.5, "yes": %v, "text": "t%d", "day": "2026-10-01", "at": "2026-10-01T12:00:00.%06dZ",
			"price": "%d.25", "list": [%d, null], "pair": {"element": %d, "word": "w"}, "map": [{"key": "k", "value": %d}], "packed": [1, %d]}`,
			i, i, i, i%2 == 0, i, i, i, i, i, i, i)
		if i%7 == 0 {
			row = fmt.Sprintf(`{"i64": %d}`, i)
		}
		require.NoError(t, b.UnmarshalJSON([]byte(row)))
	}
	return b.NewRecordBatch()
}

// dictionaries returns a batch of two dictionary columns of structs, as in indexed output.
func dictionaries(t testing.TB, from int) arrow.RecordBatch {
	value := arrow.StructOf(arrow.Field{Name: "user", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: value}
	var columns []arrow.Array
	for range 2 {
		values := array.NewStructBuilder(memory.DefaultAllocator, value)
		for i := range 3 {
			require.NoError(t, values.AppendValueFromString(fmt.Sprintf(`{"user": %d}`, from+i)))
		}
		indices := array.NewInt32Builder(memory.DefaultAllocator)
		indices.AppendValues([]int32{2, 0, 1, 1}, nil)
		columns = append(columns, array.NewDictionaryArray(kind, indices.NewArray(), values.NewArray()))
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: kind}, {Name: "b", Type: kind}}, nil)
	return array.NewRecordBatch(schema, columns, 4)
}

// The bytes on the wire are those of the Arrow library's writer and of protobuf, for whole
// batches and slices.
func TestFramesEqualTheLibrarysMessages(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	every := everyType(t, mem)
	t.Cleanup(every.Release)
	slice := func(from, to int64) arrow.RecordBatch {
		s := every.NewSlice(from, to)
		t.Cleanup(s.Release)
		return s
	}
	for name, batches := range map[string][]arrow.RecordBatch{
		"one":          {every},
		"three":        {slice(0, 50), slice(50, 51), slice(51, 100)},
		"none":         {},
		"empty":        {slice(3, 3)},
		"dictionaries": {dictionaries(t, 0), dictionaries(t, 10), dictionaries(t, 20)},
	} {
		t.Run(name, func(t *testing.T) {
			schema := every.Schema()
			if len(batches) > 0 {
				schema = batches[0].Schema()
			}
			want := &recorder{}
			writer := arrowflight.NewRecordWriter(want, ipc.WithSchema(schema))
			f := NewEncoder(schema)
			first, err := f.First()
			require.NoError(t, err)
			got := []*Frame{first}
			for i, b := range batches {
				metadata := fmt.Appendf(nil, "cursor %d", i)
				before := len(want.messages)
				require.NoError(t, writer.WriteWithAppMetadata(b, metadata))
				made, err := f.Batch(b, metadata, nil)
				require.NoError(t, err)
				got = append(got, made...)
				withoutMetadata(t, want.messages[before:len(want.messages)-1])
			}
			require.NoError(t, writer.Close())
			require.NoError(t, f.Close())
			require.Len(t, got, len(want.messages))
			for i, m := range want.messages {
				buffers, err := NewCodec().Marshal(got[i])
				require.NoError(t, err)
				require.Equal(t, m, buffers.Materialize(), "message %d", i)
				require.Equal(t, len(m), got[i].Len())
			}
		})
	}
}

// After a batch has left, its dictionaries are released, and the next batch has its own.
//
// spec: wire-9
func TestDictionariesAreReleasedWithTheirBatch(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	values := array.NewStructBuilder(mem, arrow.StructOf(arrow.Field{Name: "user", Type: arrow.PrimitiveTypes.Int64}))
	for i := range 100_000 {
		values.Append(true)
		values.FieldBuilder(0).(*array.Int64Builder).Append(int64(i))
	}
	rows := values.NewArray()
	values.Release()
	index := array.NewInt32Builder(mem)
	index.AppendValues([]int32{0}, nil)
	at := index.NewArray()
	index.Release()
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: rows.DataType()}
	column := array.NewDictionaryArray(kind, at, rows)
	rows.Release()
	at.Release()
	b := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "a", Type: kind}}, nil), []arrow.Array{column}, 1)
	column.Release()
	f := NewEncoder(b.Schema())
	for range 2 {
		l := NewBatchLease(b, nil, nil)
		made, err := f.Batch(b, nil, l)
		require.NoError(t, err)
		require.Len(t, made, 2)
		for _, one := range made {
			one.Release()
		}
		l.Release()
	}
	b.Release()
	require.Zero(t, mem.CurrentAlloc())
	require.NoError(t, f.Close())
}

// withoutMetadata removes app_metadata from dictionary and schema messages: the library's
// writer repeats it there, frames do not.
func withoutMetadata(t *testing.T, messages [][]byte) {
	for i := range messages {
		var m arrowflight.FlightData
		require.NoError(t, proto.Unmarshal(messages[i], &m))
		m.AppMetadata = nil
		var err error
		messages[i], err = proto.Marshal(&m)
		require.NoError(t, err)
	}
}

// Messages point into the batch's own buffers.
func TestBodiesAreNotCopied(t *testing.T) {
	b := numbers(1000)
	f := NewEncoder(b.Schema())
	made, err := f.Batch(b, nil, nil)
	require.NoError(t, err)
	require.Len(t, made, 1)
	values := b.Column(0).Data().Buffers()[1].Bytes()
	buffers := made[0].Marshal()
	require.Same(t, &values[0], &buffers[1].ReadOnlyData()[0])
}

// A batch is released after its last part was written and its sender has dropped the lease, in
// either order.
func TestLeaseRetainsTheBatch(t *testing.T) {
	for _, senderFirst := range []bool{true, false} {
		memory := memory.NewCheckedAllocator(batch.Default())
		b := everyType(t, memory)
		f := NewEncoder(b.Schema())
		l := NewBatchLease(b, nil, nil)
		made, err := f.Batch(b, []byte("cursor"), l)
		require.NoError(t, err)
		plain, err := NewEncoder(b.Schema()).Batch(b, []byte("cursor"), nil)
		require.NoError(t, err)
		b.Release()
		require.NoError(t, f.Close())
		buffers := made[0].Marshal()
		require.Equal(t, plain[0].Marshal().Materialize(), buffers.Materialize())
		held := memory.CurrentAlloc()
		require.Positive(t, held)
		if senderFirst {
			l.Release()
			require.Equal(t, held, memory.CurrentAlloc())
		}
		buffers.Free()
		if !senderFirst {
			require.Equal(t, held, memory.CurrentAlloc())
			l.Release()
		}
		memory.AssertSize(t, 0)
	}
}

func TestOtherMessagesAreProtobuf(t *testing.T) {
	ticket := &arrowflight.Ticket{Ticket: []byte("abc")}
	buffers, err := NewCodec().Marshal(ticket)
	require.NoError(t, err)
	want, err := proto.Marshal(ticket)
	require.NoError(t, err)
	require.Equal(t, want, buffers.Materialize())
	var back arrowflight.Ticket
	require.NoError(t, NewCodec().Unmarshal(buffers, &back))
	require.True(t, proto.Equal(ticket, &back))
	require.Equal(t, "proto", NewCodec().Name())
}

func TestBatchOfAnotherSchemaFails(t *testing.T) {
	_, err := NewEncoder(everyType(t, memory.DefaultAllocator).Schema()).Batch(numbers(1), nil, nil)
	require.ErrorContains(t, err, "a batch has the schema")
}

// wide returns a batch of 16 int64 and 16 float32 columns.
func wide(rows int) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	floats := slices.Repeat([]float32{1.5}, rows)
	ints := slices.Repeat([]int64{7}, rows)
	for i := range 16 {
		a, b := array.NewInt64Builder(memory.DefaultAllocator), array.NewFloat32Builder(memory.DefaultAllocator)
		a.AppendValues(ints, nil)
		b.AppendValues(floats, nil)
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("i%d", i), Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: fmt.Sprintf("f%d", i), Type: arrow.PrimitiveTypes.Float32})
		columns = append(columns, a.NewArray(), b.NewArray())
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
}

// sender serves one batch repeatedly, with the Arrow library's writer or with frames.
type sender struct {
	arrowflight.BaseFlightServer
	batch  arrow.RecordBatch
	n      int
	frames bool
}

func (s *sender) DoGet(_ *arrowflight.Ticket, stream arrowflight.FlightService_DoGetServer) error {
	cursor := make([]byte, 400)
	if !s.frames {
		writer := arrowflight.NewRecordWriter(stream, ipc.WithSchema(s.batch.Schema()))
		for range s.n {
			if err := writer.WriteWithAppMetadata(s.batch, cursor); err != nil {
				return err
			}
		}
		return writer.Close()
	}
	f := NewEncoder(s.batch.Schema())
	first, err := f.First()
	if err != nil {
		return err
	}
	if err := stream.SendMsg(first); err != nil {
		return err
	}
	for range s.n {
		made, err := f.Batch(s.batch, cursor, nil)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(made[0]); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkSend sends batches of 32 columns over loopback to a client that discards them, with
// the Arrow library's writer and with frames.
func BenchmarkSend(b *testing.B) {
	for _, rows := range []int{1024, 8192, 65536} {
		batch := wide(rows)
		for _, way := range []string{"library", "frames"} {
			b.Run(fmt.Sprintf("rows=%d/%s", rows, way), func(b *testing.B) {
				s := &sender{batch: batch, n: b.N, frames: way == "frames"}
				options := []grpc.ServerOption{grpc.MaxSendMsgSize(1 << 30)}
				if s.frames {
					options = append(options, grpc.ForceServerCodecV2(NewCodec()), grpc.WriteBufferSize(1<<20))
				}
				server := grpc.NewServer(options...)
				arrowflight.RegisterFlightServiceServer(server, s)
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(b, err)
				go func() { _ = server.Serve(listener) }()
				defer server.Stop()
				client, err := arrowflight.NewClientWithMiddleware(listener.Addr().String(), nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
				require.NoError(b, err)
				defer client.Close() //nolint:errcheck // of a test
				stream, err := client.DoGet(context.Background(), &arrowflight.Ticket{})
				require.NoError(b, err)
				b.SetBytes(int64(rows * 32 * 6))
				b.ReportAllocs()
				b.ResetTimer()
				for err == nil {
					err = stream.RecvMsg(new(arrowflight.FlightData))
				}
			})
		}
	}
}

// BenchmarkFrames encodes messages without sending them.
func BenchmarkFrames(b *testing.B) {
	batch := wide(8192)
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		r := &discarder{}
		writer := arrowflight.NewRecordWriter(r, ipc.WithSchema(batch.Schema()))
		for b.Loop() {
			require.NoError(b, writer.Write(batch))
		}
	})
	b.Run("frames", func(b *testing.B) {
		b.ReportAllocs()
		f := NewEncoder(batch.Schema())
		for b.Loop() {
			made, err := f.Batch(batch, nil, nil)
			require.NoError(b, err)
			made[0].Marshal()
		}
	})
	b.Run("frames of an indexed batch", func(b *testing.B) {
		b.ReportAllocs()
		indexed := wideIndexed(8192)
		f := NewEncoder(arrow.NewSchema(indexed.Schema().Fields(), nil)) // that of the batches is equal, and another one
		for b.Loop() {
			made, err := f.Batch(indexed, nil, nil)
			require.NoError(b, err)
			made[0].Marshal()
		}
	})
}

// wideIndexed returns a wide batch with one column more, which is indexed and has the same columns.
func wideIndexed(rows int) arrow.RecordBatch {
	b := wide(rows)
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(b.Schema().Fields()...)}
	at := array.NewInt32Builder(memory.DefaultAllocator)
	at.AppendValues(make([]int32, rows), nil)
	column := array.NewDictionaryArray(kind, at.NewArray(), array.RecordToStructArray(b))
	schema := arrow.NewSchema(append(b.Schema().Fields(), arrow.Field{Name: "s", Type: kind}), nil)
	return array.NewRecordBatch(schema, append(slices.Clone(b.Columns()), column), int64(rows))
}

// discarder marshals messages and discards them.
type discarder struct{}

func (*discarder) Send(m *arrowflight.FlightData) error {
	_, err := proto.Marshal(m)
	return err
}
