package changes_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/budget"
)

// spec: stage-67
func TestFormsOfArrowAreRead(t *testing.T) {
	w := &writtenRows{}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, flight.Options{Budget: limit})
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "country", Type: dictionary, Nullable: true}, {Name: "u", Type: extensions.NewUUIDType(), Nullable: true},
	}, nil)
	batch := func(countries ...string) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		for _, c := range countries {
			require.NoError(t, b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(c)) //nolint:forcetypeassert // the schema above
			b.Field(1).(*extensions.UUIDBuilder).AppendBytes([16]byte{1})                   //nolint:forcetypeassert // the schema above
		}
		return b.NewRecordBatch()
	}
	const u = " 01000000-0000-0000-0000-000000000000"
	for i, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}} {
		token := fmt.Sprintf("20261001T120000.000Z-%d", i)
		p := put(t, s.Client, `{"stage": {"table": "ml.history", "token": "`+token+`"}}`, schema, options...)
		p.rows(t, batch("CH", "DE", "CH"), batch("FR"), batch("CH", "FR")).declare(t, 6)
		_, err := p.answers()
		require.NoError(t, err)
		require.Equal(t, []string{"CH" + u, "DE" + u, "CH" + u, "FR" + u, "CH" + u, "FR" + u}, w.made(token))
	}
	p := put(t, s.Client, stageOf, schema, ipc.WithDictionaryDeltas(true))
	p.rows(t, batch("CH"))
	_ = p.writer.Write(batch("CH", "FR")) // the call may have ended
	_ = p.CloseSend()
	_, err := p.answers()
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.InvalidArgument, code)
	require.Empty(t, w.made(testToken))
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// Malformed messages end the call and have no other effect.
//
// spec: stage-67
func TestDamagedMessagesAreRefused(t *testing.T) {
	w := &writtenRows{}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, flight.Options{Budget: limit})
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"abc", "de", "fgh"}, nil) //nolint:forcetypeassert // the schema above
	batch := b.NewRecordBatch()
	var sent []*arrowflight.FlightData
	writer := arrowflight.NewRecordWriter(collected{&sent}, ipc.WithSchema(schema))
	writer.SetFlightDescriptor(&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(`{"stage": {"table": "ml.history"}}`)})
	require.NoError(t, writer.Write(batch))
	require.Len(t, sent, 2)
	send := func(messages ...*arrowflight.FlightData) error {
		stream, err := s.DoPut(t.Context())
		require.NoError(t, err)
		for _, m := range append(messages, &arrowflight.FlightData{AppMetadata: []byte(`{"rows": 3}`)}) {
			_ = stream.Send(m) // the call may have ended
		}
		_ = stream.CloseSend()
		_, err = (&putting{FlightService_DoPutClient: stream}).answers()
		return err
	}
	rows := sent[1]
	for name, messages := range map[string][]*arrowflight.FlightData{
		"no schema":      {{FlightDescriptor: sent[0].GetFlightDescriptor()}},
		"no descriptor":  {{DataHeader: sent[0].GetDataHeader()}},
		"two schemas":    {sent[0], {DataHeader: sent[0].GetDataHeader()}},
		"short header":   {sent[0], {DataHeader: []byte{1, 2, 3}}},
		"rows first":     {{FlightDescriptor: sent[0].GetFlightDescriptor(), DataHeader: rows.GetDataHeader(), DataBody: rows.GetDataBody()}},
		"no body":        {sent[0], {DataHeader: rows.GetDataHeader()}},
		"not a stage":    {{FlightDescriptor: flighttest.Command(`{"stag": {"table": "ml.history"}}`), DataHeader: sent[0].GetDataHeader()}},
		"no table":       {{FlightDescriptor: flighttest.Command(`{"stage": {"mode": "append"}}`), DataHeader: sent[0].GetDataHeader()}},
		"another schema": {sent[0], rows, {DataHeader: otherHeader(t), DataBody: make([]byte, 64)}},
	} {
		before := len(w.changes)
		err := send(messages...)
		require.Error(t, err, name)
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.InvalidArgument, code, name)
		require.Len(t, w.changes, before, name)
	}
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// otherHeader returns the header of a batch with two columns.
func otherHeader(t *testing.T) []byte {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var sent []*arrowflight.FlightData
	writer := arrowflight.NewRecordWriter(collected{&sent}, ipc.WithSchema(schema))
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	require.NoError(t, writer.Write(b.NewRecordBatch()))
	return sent[1].GetDataHeader()
}

// collected keeps the messages that a writer sends.
type collected struct{ sent *[]*arrowflight.FlightData }

// Send implements arrowflight.DataStreamWriter.
func (c collected) Send(m *arrowflight.FlightData) error {
	*c.sent = append(*c.sent, &arrowflight.FlightData{
		FlightDescriptor: m.GetFlightDescriptor(), DataHeader: append([]byte{}, m.GetDataHeader()...), DataBody: append([]byte{}, m.GetDataBody()...),
	})
	return nil
}
