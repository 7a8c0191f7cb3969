// Package progress sends clients the progress of calls that take long: changes and checks of tables.
package progress

import (
	"cmp"
	"context"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/datafile"
)

// every is the time between two messages with the counts of one step.
const every = time.Second

// Message is the progress of a call.
type Message struct {
	Table string `json:"table,omitempty"` // of a call for several tables, or that does not name its table
	Step  string `json:"step"`
	Counts
}

// Counts counts the finished work of a step.
type Counts struct {
	// Counts whose names begin with Of are totals for the step, or 0 if unknown.
	RowsRead      int64 `json:"rows_read,omitempty"`
	OfRowsRead    int64 `json:"of_rows_read,omitempty"`
	RowsWritten   int64 `json:"rows_written,omitempty"`
	OfRowsWritten int64 `json:"of_rows_written,omitempty"`
	Files         int64 `json:"files,omitempty"`
	OfFiles       int64 `json:"of_files,omitempty"`
	Bytes         int64 `json:"bytes,omitempty"`
	OfBytes       int64 `json:"of_bytes,omitempty"`
}

// OfWrite returns the progress of a write.
func OfWrite(at datafile.Progress) Message {
	return Message{Step: at.Step.String(), Counts: Counts{
		RowsRead: at.RowsRead, OfRowsRead: at.OfRowsRead, RowsWritten: at.RowsWritten, OfRowsWritten: at.OfRowsWritten,
		Files: int64(at.Files), Bytes: at.Bytes,
	}}
}

// Sender sends a client the progress of its call: when a step begins, periodically while its
// counts grow, and when the step ends. It is not safe for concurrent use.
type Sender struct {
	clock  func() time.Time
	send   func(Message) error
	quiet  bool    // the client requested none
	last   Message // as the call reported it
	sentAt time.Time
	unsent bool // last was not sent
}

// NewSender returns the Sender of a call.
func NewSender(clock func() time.Time, send func(Message) error) *Sender {
	return &Sender{clock: clock, send: send}
}

// Wanted sets whether messages are sent to the client.
func (s *Sender) Wanted(yes bool) { s.quiet = !yes }

// At reports the progress of the call.
func (s *Sender) At(now Message) {
	begins := now.Step != s.last.Step || now.Table != s.last.Table
	if begins {
		s.Flush()
	}
	s.unsent = s.unsent || now != s.last
	s.last = now
	if begins || s.clock().Sub(s.sentAt) >= every {
		s.Flush()
	}
}

// Flush sends the last reported progress if it was not sent yet.
func (s *Sender) Flush() {
	if s.quiet || !s.unsent {
		return
	}
	s.unsent, s.sentAt = false, s.clock()
	_ = s.send(s.last) // if the client has gone, the context of the call ends
}

// Writing reports the progress of a write.
func (s *Sender) Writing(at datafile.Progress) { s.At(OfWrite(at)) }

// answer is a message of an action. Exactly one field is set.
type answer struct {
	Progress *Message `json:"progress,omitempty"`
	Result   any      `json:"result,omitempty"`
}

// Answering returns the Run of an action that takes long. It sends progress and each result of run
// as messages. An action that fails partway may also have results.
func Answering(clock func() time.Time, run func(ctx context.Context, c *call.Call, body []byte, to *Sender) ([]any, error)) func(*call.Call, []byte, arrowflight.FlightService_DoActionServer) error {
	return func(c *call.Call, body []byte, stream arrowflight.FlightService_DoActionServer) error {
		send := func(a answer) error { return stream.Send(&arrowflight.Result{Body: jsontext.Of(a)}) }
		to := NewSender(clock, func(m Message) error { return send(answer{Progress: &m}) })
		out, err := run(stream.Context(), c, body, to)
		to.Flush()
		for _, result := range out {
			if failed := send(answer{Result: result}); failed != nil {
				return cmp.Or(err, failed)
			}
		}
		return err
	}
}
