package flight

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Calls that wait for a slot hold a bounded number of bytes, all of them charged to the budget.
//
// spec: stage-66, stage-95
func TestFirstMessagesOfCallsThatWaitAreChargedAndBounded(t *testing.T) {
	const calls, megabyte = 40, 1 << 20
	w := &writtenRows{reading: make(chan struct{})}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, Options{Budget: limit, MaxStages: 1})
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
	for range calls - maxPlanWaitBytes/megabyte + 1 { // with its header, a message has more than a megabyte
		require.Equal(t, codes.ResourceExhausted, status.Code(<-ended))
	}
	_, waiting := s.server.Writes()
	require.Equal(t, maxPlanWaitBytes/megabyte-1, waiting)
	require.Eventually(t, func() bool {
		charged := limit.Used() - 2*rowsin.Limit(1<<30) // the first call has reserved its next message
		return charged >= int64(waiting)*megabyte && charged <= maxPlanWaitBytes+(calls+1)*answerRest+schema
	}, time.Minute, time.Millisecond)
	first.end()
	s.server.changes.patience = 0
}

// A first message that the budget has no room for ends its call.
//
// spec: stage-95
func TestAFirstMessageWithoutRoomIsExhausted(t *testing.T) {
	w := &writtenRows{}
	limit := budget.New(64 << 20)
	s := serveTables(t, w, Options{Budget: limit})
	held, err := limit.Reserve("streams", 64<<20)
	require.NoError(t, err)
	defer held.Release()
	_, err = put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t).answers()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	w.none(t)
}

// putSlots is slots to write under test, with a clock of their own.
type putSlots struct {
	*limits.Queue
	t *testing.T
}

// take takes a slot for a client, which must be free.
func (s putSlots) take(client string) *putSlot {
	s.t.Helper()
	claim := &limits.Claim{Client: client}
	require.NoError(s.t, s.Enter(s.t.Context(), claim, planWait, noPlanSlot))
	return &putSlot{slots: s.Queue, claim: claim, timeout: putTimeout, clock: time.Now}
}

// queue lets a client wait for a slot, and returns how it ends.
func (s putSlots) queue(client string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		claim := &limits.Claim{Client: client}
		err := s.Enter(s.t.Context(), claim, planWait, noPlanSlot)
		claim.Leave()
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// silent lets a slot wait for a client that does nothing, and leave after that.
func (p *putSlot) silent(t *testing.T, received int64) <-chan error {
	ended := make(chan error, 1)
	go func() {
		err := p.Wait(t.Context(), nil, received)
		p.leave()
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// spec: stage-96
func TestSilentClientsLoseTheirSlotsToCallsThatWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(t *testing.T, s putSlots){
		"after a while": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 0)
			busy := s.take("two")
			began := time.Now()
			next := s.queue("three")
			err := <-one
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.ErrorContains(t, err, "another call waits for the slot")
			require.Contains(t, fault.As(err).Remedy, "the same token")
			require.Equal(t, putGrace, time.Since(began))
			require.NoError(t, <-next)
			busy.leave()
		},
		"no more of them than calls that wait": func(t *testing.T, s putSlots) {
			one, two := s.take("one").silent(t, 0), s.take("two").silent(t, 0)
			next := s.queue("three")
			var err error
			select {
			case err = <-one:
				one = nil
			case err = <-two:
				two = nil
			}
			require.ErrorContains(t, err, "another call waits")
			require.NoError(t, <-next)
			began := time.Now()
			select { // the other one stays until a client may take no longer
			case err = <-one:
			case err = <-two:
			}
			require.ErrorContains(t, err, "nothing whole")
			require.Equal(t, putTimeout-putGrace, time.Since(began))
		},
		"at once if they have been silent for long": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 0)
			busy := s.take("two")
			time.Sleep(time.Minute)
			began := time.Now()
			next := s.queue("three")
			require.ErrorContains(t, <-one, "another call waits")
			require.Zero(t, time.Since(began))
			require.NoError(t, <-next)
			busy.leave()
		},
		"later if they have sent more": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 5*putRate)
			busy := s.take("two")
			began := time.Now()
			next := s.queue("three")
			require.ErrorContains(t, <-one, "another call waits")
			require.Equal(t, putGrace+5*time.Second, time.Since(began))
			require.NoError(t, <-next)
			busy.leave()
		},
		"as one time, not one for each message": func(t *testing.T, s putSlots) {
			one, busy := s.take("one"), s.take("two")
			next := s.queue("three")
			messages := 0
			began := time.Now()
			for {
				done := make(chan struct{})
				time.AfterFunc(putGrace/4, func() { close(done) })
				if err := one.Wait(t.Context(), done, 100); err != nil {
					require.ErrorContains(t, err, "another call waits")
					break
				}
				messages++
			}
			require.InDelta(t, 3.5, messages, 0.5)
			require.Equal(t, putGrace, time.Since(began))
			one.leave()
			require.NoError(t, <-next)
			busy.leave()
		},
		"not to a client that has its share": func(t *testing.T, s putSlots) {
			one := s.take("one").silent(t, 0)
			busy := s.take("two")
			next := s.queue("two")
			began := time.Now()
			require.Equal(t, fault.Exhausted, fault.KindOf(<-next))
			require.Equal(t, planWait, time.Since(began))
			require.ErrorContains(t, <-one, "nothing whole")
			busy.leave()
		},
		"if they read nothing": func(t *testing.T, s putSlots) {
			one, busy := s.take("one"), s.take("two")
			next := s.queue("three")
			ends := make(chan struct{})
			err := one.send(t.Context(), 0, func() error { <-ends; return nil })
			close(ends)
			require.ErrorContains(t, err, "another call waits")
			one.leave()
			require.NoError(t, <-next)
			busy.leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := putSlots{newCallQueue(2, 50, time.Now, manyPlans), t}
				c(t, s)
				synctest.Wait()
				now := s.Counts()
				require.Zero(t, now.Taken+now.Waiting)
			})
		})
	}
}

// Programs on the machine of a server have slots of their own, by connection.
//
// spec: stage-66
func TestLocalConnectionsHaveSlotsOfTheirOwn(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	s := serveTables(t, w, Options{Budget: budget.New(1 << 30), MaxStages: 2, PeerShare: 50})
	silent := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	behind := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t)
	require.Eventually(t, func() bool { _, waiting := s.server.Writes(); return waiting == 1 }, time.Minute, time.Millisecond)
	p := put(t, dial(t, s.address), `{"stage": {"table": "ml.history", "token": "20261001T120000.000Z-other"}}`, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	p.declare(t, 2)
	_, err := p.answers()
	require.NoError(t, err)
	require.Len(t, w.made("20261001T120000.000Z-other"), 2)
	silent.end()
	behind.end()
}

// A call whose rows are many times what came ends before it fills the spool.
//
// spec: stage-97
func TestCallsOfFewBytesForManyRowsEnd(t *testing.T) {
	const rows, length = 100_000, 1 << 18
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: dictionary}}, nil)
	w := &writtenRows{}
	s := serveTables(t, w, Options{Budget: budget.New(1 << 30)})
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

// coded returns an array of a dictionary type whose rows have one text, which it has once.
func coded(typed *arrow.DictionaryType, rows int, text string) arrow.Array {
	values := array.NewStringBuilder(memory.DefaultAllocator)
	values.Append(text)
	codes := array.NewInt8Builder(memory.DefaultAllocator)
	codes.AppendValues(make([]int8, rows), nil)
	return array.NewDictionaryArray(typed, codes.NewArray(), values.NewArray())
}
