package changes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
)

// Calls that wait for a slot hold a bounded number of bytes, all of them charged to the budget.
//
// spec: stage-66, stage-95
func TestFirstMessagesOfCallsThatWaitAreChargedAndBounded(t *testing.T) {
	const calls, megabyte, maxWaitBytes = 40, 1 << 20, 16 << 20 // the bound of package call
	w := &writtenRows{reading: make(chan struct{})}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, flight.Options{Budget: limit, MaxStages: 1})
	first := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	const schema = maxSchema // of the first call
	name := strings.Repeat("x", megabyte)
	text := arrow.NewMetadata([]string{"note"}, []string{name})
	long := arrow.NewSchema(batchtest.IDSchema().Fields(), &text)
	ended := make(chan error, calls)
	for i := range calls { // one after another: what has not arrived has a bound of its own
		p := put(t, s.Client, stageOf, long).rows(t)
		go func() {
			_, err := p.answers()
			ended <- err
		}()
		require.Eventually(t, func() bool {
			_, waiting := s.server.Writes()
			return waiting+len(ended) > i
		}, time.Minute, time.Millisecond)
	}
	for range calls - maxWaitBytes/megabyte + 1 { // with its header, a message has more than a megabyte
		require.Equal(t, codes.ResourceExhausted, status.Code(<-ended))
	}
	_, waiting := s.server.Writes()
	require.Equal(t, maxWaitBytes/megabyte-1, waiting)
	require.Eventually(t, func() bool {
		charged := limit.Used() - 2*rowsin.Limit(1<<30) // the first call has reserved its next message
		return charged >= int64(waiting)*megabyte && charged <= maxWaitBytes+(calls+1)*answerBytes+schema
	}, time.Minute, time.Millisecond)
	first.end()
}

// A first message that exceeds the budget ends its call.
//
// spec: stage-95
func TestAFirstMessageWithoutRoomIsExhausted(t *testing.T) {
	w := &writtenRows{}
	limit := budget.New(64 << 20)
	s := serveTables(t, w, flight.Options{Budget: limit})
	held, err := limit.Reserve("streams", 64<<20)
	require.NoError(t, err)
	defer held.Release()
	_, err = put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t).answers()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	w.none(t)
}

// Programs on the server's machine get separate slots for each connection.
//
// spec: stage-66
func TestLocalConnectionsHaveSlotsOfTheirOwn(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	s := serveTables(t, w, flight.Options{Budget: budget.New(1 << 30), MaxStages: 2, PeerShare: 50})
	silent := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	behind := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t)
	s.waiting(t, 1)
	p := put(t, flighttest.Dial(t, s.address), `{"stage": {"table": "ml.history", "token": "20261001T120000.000Z-other"}}`, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	p.declare(t, 2)
	_, err := p.answers()
	require.NoError(t, err)
	require.Len(t, w.made("20261001T120000.000Z-other"), 2)
	silent.end()
	behind.end()
}

// A call whose decoded rows are many times larger than its messages ends before it fills the spool.
//
// spec: stage-97
func TestCallsOfFewBytesForManyRowsEnd(t *testing.T) {
	const rows, length = 100_000, 1 << 18
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: dictionary}}, nil)
	w := &writtenRows{}
	s := serveTables(t, w, flight.Options{Budget: budget.New(1 << 30)})
	many := array.NewRecordBatch(schema, []arrow.Array{coded(dictionary, rows, strings.Repeat("x", length))}, rows)
	p := put(t, s.Client, stageOf, schema).rows(t, many)
	_ = p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 100000}`)}) // the call may have ended
	_ = p.CloseSend()
	_, err := p.answers()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	w.none(t)
	few := array.NewRecordBatch(schema, []arrow.Array{coded(dictionary, rows, strings.Repeat("x", 500))}, rows)
	p = put(t, s.Client, stageOf, schema, ipc.WithZstd())
	p.rows(t, few, few, few).declare(t, 3*rows)
	_, err = p.answers()
	require.NoError(t, err)
}

// coded returns a dictionary array whose rows all share one text.
func coded(typed *arrow.DictionaryType, rows int, text string) arrow.Array {
	values := array.NewStringBuilder(memory.DefaultAllocator)
	values.Append(text)
	codes := array.NewInt8Builder(memory.DefaultAllocator)
	codes.AppendValues(make([]int8, rows), nil)
	return array.NewDictionaryArray(typed, codes.NewArray(), values.NewArray())
}
