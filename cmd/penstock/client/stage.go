package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
)

// Stage sends rows to the server, which writes them to a table as one change. Stage calls report
// with each message about progress that the server sends. It does so in another goroutine, which
// ends before Stage returns. If reading the rows fails, the server writes nothing.
func (c *Client) Stage(ctx context.Context, command dataset.TableWrite, rows array.RecordReader, report func(progress.Message)) (stage.WriteResult, error) {
	text, err := json.Marshal(map[string]any{"stage": command})
	if err != nil {
		return stage.WriteResult{}, fault.New(fault.Internal, "write the command: %w", err)
	}
	call, end := context.WithCancel(ctx)
	defer end()
	stream, err := c.flight.DoPut(call)
	if err != nil {
		return stage.WriteResult{}, c.fault(ctx, err, nil)
	}
	schema := arrowflight.NewRecordWriter(stream, ipc.WithSchema(rows.Schema()))
	schema.SetFlightDescriptor(&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: text})
	_ = schema.Close() // this sends the schema; if it fails, the server's answers explain the failure
	a := &stageAnswers{client: c, stream: stream, progress: report, limit: make(chan int64, 1), ended: make(chan struct{})}
	go a.receive(ctx)
	if limit, begun := <-a.limit; begun {
		if err := send(stream, rows, limit); err != nil {
			end() // the server has not received the number of all rows, so it writes nothing
			<-a.ended
			return stage.WriteResult{}, err
		}
	}
	<-a.ended
	if a.err != nil {
		return stage.WriteResult{}, trimName(a.err, "stage")
	}
	if a.result == nil {
		return stage.WriteResult{}, c.unread("%s ended the call without a result", c.name)
	}
	return *a.result, nil
}

// stageAnswers receives the messages of a call that sends rows.
type stageAnswers struct {
	client   *Client
	stream   arrowflight.FlightService_DoPutClient
	progress func(progress.Message)
	limit    chan int64    // receives the maximum bytes of a message when the server is ready for rows; closed when the call has ended
	ended    chan struct{} // closed when the call has ended, and err and result are final
	err      error
	result   *stage.WriteResult
}

// receive receives messages until the call ends.
func (a *stageAnswers) receive(ctx context.Context) {
	a.err = a.all(ctx)
	close(a.limit)
	close(a.ended)
}

func (a *stageAnswers) all(ctx context.Context) error {
	for {
		answer, err := a.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return a.client.fault(ctx, err, a.stream.Trailer())
		}
		var message struct {
			Begin *struct {
				MaxMessage int64 `json:"max_message"`
			} `json:"begin"`
			Progress *progress.Message  `json:"progress"`
			Result   *stage.WriteResult `json:"result"`
		}
		if err := json.Unmarshal(answer.GetAppMetadata(), &message); err != nil {
			return a.client.unread("read what %s sent: %w", a.client.name, err)
		}
		switch {
		case message.Begin != nil:
			select {
			case a.limit <- message.Begin.MaxMessage:
			default: // the server has sent the message before; the repetition is ignored
			}
		case message.Progress != nil:
			a.progress(*message.Progress)
		case message.Result != nil:
			a.result = message.Result
		}
	}
}

// withoutSchema sends all messages except the first one, because the schema in it was sent before.
type withoutSchema struct {
	arrowflight.DataStreamWriter
	begun bool
}

// Send implements arrowflight.DataStreamWriter.
func (w *withoutSchema) Send(m *arrowflight.FlightData) error {
	if !w.begun {
		w.begun = true
		return nil
	}
	return w.DataStreamWriter.Send(m)
}

// send sends all rows in messages of at most limit bytes, and then the number of rows. It returns
// an error if reading the rows or sending them fails. If the server has ended the call, send
// returns nil, because the server's answers contain the reason.
func send(stream arrowflight.FlightService_DoPutClient, rows array.RecordReader, limit int64) error {
	w := arrowflight.NewRecordWriter(&withoutSchema{DataStreamWriter: stream}, ipc.WithSchema(rows.Schema()))
	sent := int64(0)
	for rows.Next() {
		b := rows.RecordBatch()
		if err := sendBatch(w, b, limit); err != nil {
			return gone(err)
		}
		sent += b.NumRows()
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return gone(err)
	}
	if err := stream.Send(&arrowflight.FlightData{AppMetadata: fmt.Appendf(nil, `{"rows": %d}`, sent)}); err != nil {
		return gone(err)
	}
	return gone(stream.CloseSend())
}

// gone converts an error of sending rows. It returns nil if the error is io.EOF, which means that
// the server has ended the call.
func gone(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fault.New(fault.Unavailable, "send rows: %w", err).WithRemedy("repeat the command with the same --token")
}

// sendBatch sends a batch in parts of about half of limit bytes. A part has at least one row; if a
// single row is too large, the server refuses it.
func sendBatch(w *arrowflight.Writer, b arrow.RecordBatch, limit int64) error {
	parts := 2*batch.Size(b)/max(limit, 1) + 1
	step := max(b.NumRows()/parts, 1)
	for from := int64(0); from < b.NumRows(); from += step {
		part := b.NewSlice(from, min(from+step, b.NumRows()))
		err := w.Write(part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
