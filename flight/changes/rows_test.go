package changes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
)

// writtenRows is a TableWriter that keeps texts of the rows of each change that was made.
type writtenRows struct {
	mu        sync.Mutex
	changes   map[string][]string // by token
	last      dataset.TableWrite
	moves     []commit.Move
	published []changes.Publication
	reading   chan struct{} // receives after each batch, if it is not nil
	wait      chan struct{} // is received from before the change is made, if it is not nil
	err       error
	refuse    error // of tables that may not be written to
}

// Writable implements TableWriter.
func (w *writtenRows) Writable(string) error { return w.refuse }

func (w *writtenRows) Stage(ctx context.Context, request dataset.TableWrite, _ access.WriteSources, progress func(datafile.Progress), rows array.RecordReader) (stage.WriteResult, error) {
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

func (w *writtenRows) CheckReaders(_ context.Context, made changes.CheckedChange, client changes.CheckingClient) []stage.ReaderCheck {
	out := []stage.ReaderCheck{}
	for _, r := range client.Readers {
		one := stage.ReaderCheck{Dataset: r.Dataset.Name, Rows: made.Snapshot}
		if made.Before != nil {
			one.Entry = made.Before[r.Dataset.Name].Error()
		}
		if client.Busy {
			one.NotMeasured = "busy"
		}
		out = append(out, one)
	}
	return out
}

func (w *writtenRows) PlanReaders(_ context.Context, table string, client changes.CheckingClient) map[string]error {
	out := map[string]error{}
	for _, r := range client.Readers {
		out[r.Dataset.Name] = fault.New(fault.Invalid, "before the change of %s", table)
	}
	return out
}

func (w *writtenRows) Publish(_ context.Context, p changes.Publication) (commit.Move, []changes.CheckedLimits, error) {
	if p.Branch == "gone" {
		return commit.Move{}, nil, fault.New(fault.NotFound, "there is no branch gone")
	}
	p.Readers = nil // they have functions
	w.published = append(w.published, p)
	return commit.Move{Table: p.Table, Ref: commit.Main, From: 1, To: 2}, nil, nil
}

func (w *writtenRows) Undo(_ context.Context, made commit.Move) error {
	w.moves = append(w.moves, made)
	return nil
}

func (w *writtenRows) Drop(_ context.Context, request changes.TableDrop) (string, error) {
	return "", fault.New(fault.Internal, "table %s is not to be dropped", request.Table)
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

// maxSchema exceeds the bytes of a call's schema.
const maxSchema = 64 << 10

// answerBytes exceeds the bytes that a server charges for the answers of a call.
const answerBytes = 5 << 10

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
func (p *putting) answers() (all []changes.PutResult, err error) {
	for {
		m, err := p.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		var one changes.PutResult
		if err := json.Unmarshal(m.GetAppMetadata(), &one); err != nil {
			return all, err
		}
		all = append(all, one)
	}
}

// stageOf is the command of most calls.
const stageOf = `{"stage": {"table": "ml.history", "token": "` + testToken + `"}}`
