package receive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/blocks"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/fault"
)

// raw is a message that is passed on as it is.
type raw []byte

// Unmarshal implements the codec of package frames.
func (r *raw) Unmarshal(parts mem.BufferSlice) error {
	*r = parts.Materialize()
	return nil
}

// Marshal implements frames.Marshaler.
func (r *raw) Marshal() mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(*r)} }

// passing passes one stream on. The goroutine of the call owns it.
type passing struct {
	*Service
	session *local.Session
	to      grpc.ServerStream
	log     *slog.Logger

	// Of the current connection.
	from   grpc.ClientStream
	served *rowsin.Served // nil: messages are not decoded
	blocks *blocks.Blocks // nil: batches do not become blocks
	failed error          // the failure of from, or io.EOF
	unsent []rowsin.Part  // the dictionaries of blocks, in case that a later batch is passed on

	schema    []byte // the header of its message, which was passed on; nil before
	begun     bool   // further messages were passed on
	batches   int    // that were passed on as blocks or as they came
	assembled int    // that were passed on as blocks
}

// run passes on the stream of a connection, whose messages have at most limit bytes.
func (o *passing) run(ctx context.Context, from grpc.ClientStream, limit int64) error {
	o.from, o.failed, o.unsent = from, nil, nil
	first, err := o.receive(ctx)
	if err != nil {
		return o.ended()
	}
	defer o.stop()
	o.decode(ctx, first, limit)
	if err := o.introduce(first); err != nil {
		return err
	}
	for {
		parts, b := o.next(ctx)
		if o.failed != nil {
			return o.ended()
		}
		err := o.pass(ctx, parts, b)
		if b != nil {
			b.Release()
		}
		if err != nil {
			return err
		}
	}
}

// receive receives a message. Afterwards, o.failed has the failure, if there is one.
func (o *passing) receive(context.Context) (*rowsin.Message, error) {
	m := &rowsin.Message{}
	o.failed = o.from.RecvMsg(m)
	return m, o.failed
}

// decode prepares to decode the batches after the first message. If they cannot become blocks, they
// are not decoded.
func (o *passing) decode(ctx context.Context, first *rowsin.Message, limit int64) {
	var err error
	if o.served, err = rowsin.OpenServed(ctx, first, o.receive, limit); err == nil {
		o.blocks, err = blocks.Open(o.session, o.Sessions.LendRing, o.Budget, o.served.Schema())
	}
	if err != nil {
		o.log.InfoContext(ctx, "the stream passes batches on as they come", "error", err)
		o.stop()
		return
	}
	o.blocks.Cores = o.Cores
}

// stop ends decoding: further batches are passed on as they come.
func (o *passing) stop() {
	if o.served != nil {
		o.served.Close()
	}
	o.blocks.Close()
	o.served, o.blocks = nil, nil
}

// introduce passes on the server's headers, and the message of the schema, once.
func (o *passing) introduce(first *rowsin.Message) error {
	switch {
	case o.schema != nil && bytes.Equal(o.schema, first.Header()):
		return nil
	case o.schema != nil:
		return refused(o.to, fault.New(fault.Corrupt, "the server sent another schema when the receiver redeemed the ticket again"))
	case !first.HasArrow():
		return refused(o.to, fault.New(fault.Corrupt, "the first message of the server's stream has no schema"))
	}
	o.schema = first.Header()
	headers, err := o.from.Header()
	if err != nil {
		return err
	}
	if err := o.to.SetHeader(ofPenstock(headers)); err != nil {
		return err
	}
	return o.to.SendMsg(first)
}

// next receives the messages of the next batch, or a message without one. b is nil if the messages
// must be passed on as they are. The caller releases b.
func (o *passing) next(ctx context.Context) (parts []rowsin.Part, b arrow.RecordBatch) {
	if o.served == nil {
		m, err := o.receive(ctx)
		if err != nil {
			return nil, nil
		}
		return []rowsin.Part{m.Part()}, nil
	}
	b, err := o.served.Next(ctx)
	parts = o.served.Parts()
	if b == nil {
		if err != nil && o.failed == nil {
			o.log.WarnContext(ctx, "the stream passes batches on as they come", "error", err)
		}
		o.stop()
	}
	return parts, b
}

// pass passes on the messages of a batch b, as a block if possible.
func (o *passing) pass(ctx context.Context, parts []rowsin.Part, b arrow.RecordBatch) error {
	o.begun = true
	if b != nil {
		o.batches++
		assembled, err := o.assemble(ctx, b, parts[len(parts)-1].Metadata())
		if err != nil {
			return err
		}
		if assembled {
			o.assembled++
			o.unsent = append(without(o.unsent, parts), parts[:len(parts)-1]...)
			return nil
		}
	}
	last := parts[len(parts)-1]
	if last.HasArrow() { // a client cannot read dictionaries that no batch follows
		parts = append(without(o.unsent, parts), parts...)
		o.unsent = nil
	}
	if !last.IsDictionary { // a client reads a batch together with the dictionaries before it
		o.session.Announce()
	}
	for _, part := range parts {
		if err := o.to.SendMsg(part.Message); err != nil {
			return err
		}
	}
	return nil
}

// without returns those dictionaries of before that parts does not replace.
func without(before, parts []rowsin.Part) []rowsin.Part {
	var out []rowsin.Part
	for _, one := range before {
		replaced := false
		for _, part := range parts {
			replaced = replaced || part.IsDictionary && part.Dictionary == one.Dictionary
		}
		if !replaced {
			out = append(out, one)
		}
	}
	return out
}

// assemble delivers a batch as a block, once the client has room for it. It reports whether it did.
func (o *passing) assemble(ctx context.Context, b arrow.RecordBatch, cursor []byte) (bool, error) {
	var position struct {
		Step *int64 `json:"step"`
	}
	if json.Unmarshal(cursor, &position) != nil || position.Step == nil || !o.session.Takes() {
		return false, nil
	}
	if err := o.wait(ctx); err != nil {
		return false, err
	}
	bytes, err := o.blocks.Deliver(b, cursor, *position.Step)
	if err != nil {
		o.log.DebugContext(ctx, "a batch was not passed on as a block", "step", *position.Step, "error", err)
	}
	return bytes > 0, nil
}

// wait waits until the client has room for a block.
func (o *passing) wait(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, o.StallTimeout)
	defer cancel()
	if err := o.session.Wait(limited); err == nil || ctx.Err() != nil {
		return err
	}
	return status.Errorf(codes.Unavailable, "the client has taken nothing for %s", o.StallTimeout)
}

// errOversized is the end of a stream that has a message of more bytes than the limit.
var errOversized = errors.New("a message exceeds the limit")

// ended passes the end of the server's stream on.
func (o *passing) ended() error {
	if errors.Is(o.failed, io.EOF) {
		o.to.SetTrailer(ofPenstock(o.from.Trailer()))
		return nil
	}
	if status.Code(o.failed) == codes.ResourceExhausted && len(o.from.Trailer().Get(failure.TrailerKey)) == 0 { // this side's limit: a server's failure has details
		return errOversized
	}
	return o.broken()
}

// broken passes the failure of the server's stream on.
func (o *passing) broken() error {
	o.to.SetTrailer(ofPenstock(o.from.Trailer()))
	return status.Convert(o.failed).Err()
}
