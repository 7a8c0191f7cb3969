package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stage"
)

// writtenRows is a TableWriter that keeps texts of the rows of each change that was made.
type writtenRows struct {
	mu      sync.Mutex
	changes map[string][]string // by token
	last    dataset.TableWrite
	moves   []commit.Move
	reading chan struct{} // receives after each batch, if it is not nil
	wait    chan struct{} // is received from before the change is made, if it is not nil
	err     error
	refuse  error // of tables that may not be written to
}

// Writable implements TableWriter.
func (w *writtenRows) Writable(string) error { return w.refuse }

func (w *writtenRows) Stage(ctx context.Context, request dataset.TableWrite, _ WriteSources, progress func(datafile.Progress), rows array.RecordReader) (stage.WriteResult, error) {
	w.mu.Lock()
	made, existed := w.changes[request.Token]
	w.last = request
	w.mu.Unlock()
	if existed {
		return stage.WriteResult{Token: request.Token, Snapshot: int64(len(made)), Existed: true}, nil
	}
	var all []string
	for rows.Next() {
		b := rows.RecordBatch()
		for i := range int(b.NumRows()) {
			var row []string
			for _, c := range b.Columns() {
				row = append(row, c.ValueStr(i))
			}
			all = append(all, strings.Join(row, " "))
		}
		if request.Progress {
			progress(datafile.Progress{RowsRead: int64(len(all))})
		}
		if w.reading != nil {
			select {
			case w.reading <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}
	if err := rows.Err(); err != nil {
		return stage.WriteResult{}, fault.Op(err, "stage rows to table %s", request.Table)
	}
	if w.wait != nil {
		select {
		case <-w.wait:
		case <-ctx.Done():
			return stage.WriteResult{}, context.Cause(ctx)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return stage.WriteResult{}, w.err
	}
	if w.changes == nil {
		w.changes = map[string][]string{}
	}
	w.changes[request.Token] = all
	return stage.WriteResult{Token: request.Token, Snapshot: 7, Rows: int64(len(all))}, nil
}

func (w *writtenRows) Publish(_ context.Context, table, branch string) (commit.Move, error) {
	if branch == "gone" {
		return commit.Move{}, fault.New(fault.NotFound, "there is no branch gone")
	}
	return commit.Move{Table: table, Ref: commit.Main, From: 1, To: 2}, nil
}

func (w *writtenRows) Undo(_ context.Context, made commit.Move) error {
	w.moves = append(w.moves, made)
	return nil
}

// made returns the rows of the change of a token.
func (w *writtenRows) made(token string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes[token]
}

// none requires that no change was made.
func (w *writtenRows) none(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.changes)
}

// maxSchema is more than what the schema of a call takes.
const maxSchema = 64 << 10

// testToken is the token of most calls.
const testToken = "20261001T120000.000Z-test"

// putting is a call that sends rows.
type putting struct {
	arrowflight.FlightService_DoPutClient
	writer *arrowflight.Writer
	end    context.CancelFunc
}

// put begins a call with a command.
func put(t testing.TB, client arrowflight.Client, command string, schema *arrow.Schema, options ...ipc.Option) *putting {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := client.DoPut(ctx)
	require.NoError(t, err)
	p := &putting{FlightService_DoPutClient: stream, end: cancel}
	p.writer = arrowflight.NewRecordWriter(stream, append(options, ipc.WithSchema(schema))...)
	p.writer.SetFlightDescriptor(&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(command)})
	return p
}

// rows sends batches.
func (p *putting) rows(t testing.TB, batches ...arrow.RecordBatch) *putting {
	t.Helper()
	for _, b := range batches {
		if err := p.writer.Write(b); err != nil {
			require.ErrorIs(t, err, io.EOF) // the server has ended the call
		}
	}
	if len(batches) == 0 {
		require.NoError(t, p.writer.Close()) // sends the schema
	}
	return p
}

// declare sends the number of all rows, and ends the client's side of the stream.
func (p *putting) declare(t testing.TB, rows int) {
	t.Helper()
	require.NoError(t, p.Send(&arrowflight.FlightData{AppMetadata: fmt.Appendf(nil, `{"rows": %d}`, rows)}))
	require.NoError(t, p.CloseSend())
}

// answers receives all messages, and the error that ended the call.
func (p *putting) answers() (all []putResult, err error) {
	for {
		m, err := p.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		var one putResult
		if err := json.Unmarshal(m.GetAppMetadata(), &one); err != nil {
			return all, err
		}
		all = append(all, one)
	}
}

// serveTables runs a server that writes to tables.
func serveTables(t testing.TB, w TableWriter, o Options) *served {
	o.Loader, o.Tables = newWorld(t).loader(), w
	return serve(t, o)
}

// stageOf is the command of most calls.
const stageOf = `{"stage": {"table": "ml.history", "token": "` + testToken + `"}}`

// spec: stage-60, stage-62
func TestRowsOfAClientAreOneChange(t *testing.T) {
	w := &writtenRows{}
	s := serveTables(t, w, Options{Budget: budget.New(1 << 30), ProgressEvery: time.Nanosecond, Clock: time.Now})
	p := put(t, s.Client, `{"stage": {"table": "ml.history", "mode": "replace", "token": "`+testToken+`", "branch": "try", "evolve": true,
		"key": ["id"], "sort": ["id desc"], "buckets": 4, "partition": ["day(ts)"], "only_keys_of": "homefeed", "allow_duplicates": true, "allow_shrink": true, "dry_run": true, "progress": true}}`, batchtest.IDSchema())
	p.rows(t, batchtest.IDs(0, 3), batchtest.IDs(3, 5)).declare(t, 5)
	got, err := p.answers()
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, w.made(testToken))
	require.Equal(t, putResult{Begin: &putBegins{Token: testToken, MaxMessage: 8 << 20}}, got[0])
	require.Equal(t, int64(3), got[1].Progress.RowsRead)
	require.Equal(t, int64(7), got[len(got)-1].Result.Snapshot)
	require.Equal(t, dataset.TableWrite{
		Table: "ml.history", Mode: dataset.WriteReplace, Token: testToken, Branch: "try", Evolve: true, Key: []string{"id"}, DryRun: true,
		Partition: []string{"day(ts)"}, Buckets: 4, Sort: []string{"id desc"}, OnlyKeysOf: "homefeed", AllowDuplicates: true, AllowShrink: true, Progress: true,
	}, w.last)

	p = put(t, s.Client, stageOf, batchtest.IDSchema())
	got, err = p.rows(t, batchtest.IDs(0, 1)).answers()
	require.NoError(t, err)
	require.Len(t, got, 1, "no row is asked for")
	require.True(t, got[0].Result.Existed)

	p = put(t, s.Client, `{"stage": {"table": "ml.history", "like": "ml.impressions"}}`, batchtest.IDSchema())
	p.rows(t).declare(t, 0)
	got, err = p.answers()
	require.NoError(t, err)
	require.NoError(t, commit.CheckToken(got[0].Begin.Token, time.Now()), "a token is made")
	require.Equal(t, got[0].Begin.Token, got[1].Result.Token)
}

// A stream that ends in any other way than by its number of rows and a closed side changes nothing.
//
// spec: stage-61
func TestIncompleteStreamsChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(p *putting) error
		code codes.Code
		says string
	}{
		"closed without a number": {func(p *putting) error { return p.CloseSend() }, codes.InvalidArgument, "without the message"},
		"closed after the schema": {func(p *putting) error { return p.CloseSend() }, codes.InvalidArgument, "without the message"},
		"fewer rows": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 3}`)}), p.CloseSend())
		}, codes.DataLoss, "has sent 3 rows, and 2 have arrived"},
		"more rows": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 1}`)}), p.CloseSend())
		}, codes.DataLoss, "has sent 1 rows, and 2 have arrived"},
		"no number": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{}`)}), p.CloseSend())
		}, codes.InvalidArgument, "neither rows nor their number"},
		"rows after the number": {func(p *putting) error {
			return errors.Join(p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 2}`)}), p.writer.Write(batchtest.IDs(0, 1)), p.CloseSend())
		}, codes.InvalidArgument, "after the last one"},
		"canceled": {func(p *putting) error { p.end(); return nil }, codes.Canceled, ""},
		"canceled after the number": {func(p *putting) error {
			err := p.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 2}`)})
			p.end()
			return err
		}, codes.Canceled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writtenRows{}
			limit := budget.New(1 << 30)
			s := serveTables(t, w, Options{Budget: limit})
			p := put(t, s.Client, stageOf, batchtest.IDSchema())
			if name != "closed after the schema" {
				p.rows(t, batchtest.IDs(0, 2))
			} else {
				p.rows(t)
			}
			_ = c.act(p) // the call may have ended
			_, err := p.answers()
			code, _ := failureOf(t, err, nil)
			require.Equal(t, c.code, code, err)
			require.ErrorContains(t, err, c.says)
			w.none(t)
			s.quiet(t)
			require.Zero(t, limit.Used())
		})
	}
}

// quiet waits until no call runs.
func (s *served) quiet(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return s.server.Streams() == 0 }, time.Minute, time.Millisecond)
}

// A client that sends nothing loses its call, and so does one whose server ends.
//
// spec: stage-65, stage-68
func TestCallsThatSendNothingEnd(t *testing.T) {
	w := &writtenRows{}
	s := serveTables(t, w, Options{Budget: budget.New(1 << 30), PutTimeout: time.Millisecond})
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	defer time.AfterFunc(20*time.Second, p.end).Stop()
	_, err := p.answers()
	code, _ := failureOf(t, err, nil)
	require.Equal(t, codes.Unavailable, code)
	require.ErrorContains(t, err, "has sent nothing whole")
	w.none(t)

	w = &writtenRows{reading: make(chan struct{})}
	s = serveTables(t, w, Options{Budget: budget.New(1 << 30)})
	p = put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.server.Shutdown(over))
	_, err = p.answers()
	code, _ = failureOf(t, err, nil)
	require.Equal(t, codes.Unavailable, code)
	require.ErrorContains(t, err, "shutting down")
	w.none(t)
}

// A server that drains lets a call finish.
//
// spec: stage-68
func TestCallsFinishWhileTheServerDrains(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	s := serveTables(t, w, Options{Budget: budget.New(1 << 30)})
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	done := make(chan error, 1)
	go func() { done <- s.server.Shutdown(context.Background()) }()
	p.declare(t, 2)
	_, err := p.answers()
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Len(t, w.made(testToken), 2)
}

// spec: stage-63
func TestLargeMessagesAreRefused(t *testing.T) {
	w := &writtenRows{}
	s := serveTables(t, w, Options{Budget: budget.New(256 << 20)})
	for name, p := range map[string]func() *putting{
		"beyond what is received": func() *putting {
			return put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 1<<20))
		},
		"beyond the limit": func() *putting {
			return put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 300_000))
		},
		"without its compression": func() *putting {
			return put(t, s.Client, stageOf, batchtest.IDSchema(), ipc.WithZstd()).rows(t, batchtest.IDs(0, 300_000))
		},
	} {
		call := p()
		_ = call.CloseSend() // the call may have ended
		_, err := call.answers()
		code, _ := failureOf(t, err, nil)
		require.Equal(t, codes.ResourceExhausted, code, name)
	}
	w.none(t)
	p := put(t, s.Client, stageOf, batchtest.IDSchema())
	b := batchtest.IDs(0, 200_000)
	p.rows(t, b, b).declare(t, 400_000)
	_, err := p.answers()
	require.NoError(t, err)
}

// spec: stage-64, stage-66
func TestManyCallsStayWithinTheirPlacesAndMemory(t *testing.T) {
	const calls, places = 50, 8
	w := &writtenRows{}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, Options{Budget: limit, MaxStages: places, PeerShare: 100})
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			p := put(t, s.Client, fmt.Sprintf(`{"stage": {"table": "ml.history", "token": "20261001T120000.000Z-%d"}}`, i), batchtest.IDSchema())
			p.rows(t, batchtest.IDs(0, 1000), batchtest.IDs(1000, 2000)).declare(t, 2000)
			_, err := p.answers()
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Len(t, w.changes, calls)
	require.LessOrEqual(t, limit.Peak(), int64(places*(2*rowsin.Limit(1<<30)+maxSchema)+calls*(answerRest+1024)))
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// Memory for a message is reserved before its client sends it, and dictionaries stay charged.
//
// spec: stage-64
func TestMessagesAreChargedBeforeTheyCome(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, Options{Budget: limit})
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 100))
	_, err := p.Recv() // begin
	require.NoError(t, err)
	<-w.reading
	waits := func() bool {
		more := limit.Used() - 2*rowsin.Limit(1<<30)
		return more > 0 && more <= maxSchema
	}
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	p.declare(t, 100)
	_, err = p.answers()
	require.NoError(t, err)
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// A call without a place gives up, and its error has a delay after which to try again.
//
// spec: stage-66
func TestCallsWithoutAPlaceAreRefused(t *testing.T) {
	w := &writtenRows{reading: make(chan struct{})}
	s := serveTables(t, w, Options{Budget: budget.New(1 << 30), MaxStages: 1})
	s.server.changes.patience = time.Millisecond
	p := put(t, s.Client, stageOf, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	<-w.reading
	open, waiting := s.server.Writes()
	require.Equal(t, []int{1, 0}, []int{open, waiting})
	var trailer metadata.MD
	other := put(t, s.Client, `{"stage": {"table": "ml.history"}}`, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 2))
	defer time.AfterFunc(20*time.Second, other.end).Stop()
	_, err := other.answers()
	trailer = other.Trailer()
	code, details := failureOf(t, err, trailer)
	require.Equal(t, codes.ResourceExhausted, code)
	require.NotZero(t, details.RetryAfterMS)
	p.declare(t, 2)
	_, err = p.answers()
	require.NoError(t, err)
}

// spec: stage-67
func TestFormsOfArrowAreRead(t *testing.T) {
	w := &writtenRows{}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, Options{Budget: limit})
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
	code, _ := failureOf(t, err, nil)
	require.Equal(t, codes.InvalidArgument, code)
	require.Empty(t, w.made(testToken))
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// Messages that are not what they say end the call, and nothing else.
//
// spec: stage-67
func TestDamagedMessagesAreRefused(t *testing.T) {
	w := &writtenRows{}
	limit := budget.New(1 << 30)
	s := serveTables(t, w, Options{Budget: limit})
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
		"not a stage":    {{FlightDescriptor: command(`{"stag": {"table": "ml.history"}}`), DataHeader: sent[0].GetDataHeader()}},
		"no table":       {{FlightDescriptor: command(`{"stage": {"mode": "append"}}`), DataHeader: sent[0].GetDataHeader()}},
		"another schema": {sent[0], rows, {DataHeader: otherHeader(t), DataBody: make([]byte, 64)}},
	} {
		before := len(w.changes)
		err := send(messages...)
		require.Error(t, err, name)
		code, _ := failureOf(t, err, nil)
		require.Equal(t, codes.InvalidArgument, code, name)
		require.Len(t, w.changes, before, name)
	}
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// A call that is not allowed ends by its command alone: the rest of its first message is not read, whatever it is.
//
// spec: stage-111
func TestCallsThatMayNotWriteEndByTheirCommand(t *testing.T) {
	reads := []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Publish}, Write: []string{"*"}}}
	for name, c := range map[string]struct {
		options Options
		refuse  error
		code    codes.Code
	}{
		"a catalog without writes": {Options{}, fault.New(fault.Forbidden, "the catalog allows no writes"), codes.PermissionDenied},
		"a policy without stage":   {Options{Policy: func() *policy.Policy { return &policy.Policy{Rules: reads} }}, nil, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writtenRows{refuse: c.refuse}
			memory := budget.New(1 << 30)
			c.options.Budget = memory
			s := serveTables(t, w, c.options)
			stream, err := s.DoPut(t.Context())
			require.NoError(t, err)
			hostile := []byte{0xff, 0xff, 0xff, 0x7f, 1, 2, 3}
			require.NoError(t, stream.Send(&arrowflight.FlightData{FlightDescriptor: command(stageOf), DataHeader: hostile, DataBody: make([]byte, 1<<20)}))
			_, err = (&putting{FlightService_DoPutClient: stream}).answers()
			code, _ := failureOf(t, err, nil)
			require.Equal(t, c.code, code, err)
			w.none(t)
			s.quiet(t)
			require.Zero(t, memory.Used())
		})
	}
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
