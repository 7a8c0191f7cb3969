package flight

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
)

const (
	// headerMoves is the header of a DoGet with which a client says that it understands the message
	// moved. For any other client, a stream without its report is incomplete.
	headerMoves = "penstock-moves"
	// movesForm is the value of headerMoves for the form of moved. Other values have no effect.
	movesForm = "1"
	// endMoved labels, in logs and metrics, a stream that ended with the message moved.
	endMoved = "moved"
)

// moved is the last message of a stream that continues on another server.
type moved struct {
	Batches int64           `json:"batches"`          // that were sent before
	Cursor  json.RawMessage `json:"cursor,omitempty"` // of the last batch; none if no batch was sent
}

// mayMove reports whether the client of a DoGet understands the message moved.
func mayMove(ctx context.Context) bool {
	values := metadata.ValueFromIncomingContext(ctx, headerMoves)
	return len(values) == 1 && values[0] == movesForm
}

// moves reports whether the stream ends now, because the server shuts down. Otherwise, the stream reads another batch.
func (o *streamSender) moves() bool {
	o.running.ending.read()
	return o.mayMove && o.isDraining()
}

// ends notes that the stream ends after this many batches, and at its cursor, if the server shuts down now.
func (o *streamSender) ends(batches int64) {
	o.running.ending.ends(batches, o.cursor)
	if tell := o.running.ending.tell; tell != nil && o.isDraining() {
		tell()
	}
}

// move sends the last message of a stream that continues on another server.
func (o *streamSender) move() error {
	o.ends(o.batches)
	end := moved{Batches: o.batches}
	if o.batches > 0 {
		end.Cursor = o.cursor.Text(&o.planText)
	}
	o.hasMoved = true
	o.session.Announce()
	return o.write(frames.NewFrame(jsontext.Of(struct {
		Moved moved `json:"moved"`
	}{end})))
}

// errStops is the end of a stream's wait for a slot or for memory: the server shuts down, and the stream can go on elsewhere.
var errStops = errors.New("the stream goes on elsewhere")

// waiting returns the context of a stream's waits for a slot. If the stream may move, it also ends when the server shuts down. leave
// frees it.
func (s *Server) waiting(ctx context.Context, mayMove bool) (waiting context.Context, leave func()) {
	if !mayMove {
		return ctx, func() {}
	}
	return s.untilDrain(ctx)
}

// withinUntil is admission.Slot.Within for a stream whose waits end with the context waiting. It returns errStops if the stream
// would wait longer: for a slot, or, after a step that lacked memory and was undone, for other streams.
func withinUntil(ctx, waiting context.Context, at *admission.Slot, do func() error, undo func() bool) error {
	tried := false
	undone := func() bool {
		tried = undo != nil && !undo()
		return !tried
	}
	err := at.Within(waiting, func() error {
		tried = true
		return do()
	}, undone)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return err
	}
	if !tried || budget.Crowded(err) && undone() {
		return errStops
	}
	return err
}

// shuttingDown is the failure of calls that a server refuses because it shuts down.
func shuttingDown() *fault.Error {
	return fault.New(fault.Unavailable, "the server is shutting down").WithRemedy("use another server, or this one after its restart")
}
