package flight

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/frames"
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

// moves reports whether the stream ends now, because the server shuts down.
func (o *streamSender) moves() bool { return o.mayMove && o.isDraining() }

// move sends the last message of a stream that continues on another server.
func (o *streamSender) move() error {
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

// shuttingDown is the failure of calls that a server refuses because it shuts down.
func shuttingDown() *fault.Error {
	return fault.New(fault.Unavailable, "the server is shutting down").WithRemedy("use another server, or this one after its restart")
}
