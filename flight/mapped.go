package flight

import (
	"context"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/segment"
)

// headerSession is the header of a DoGet that names the client's session for batches in mapped memory,
// and the header of the answer if the server has this session.
const headerSession = "penstock-session"

// mappedBatch is the app_metadata of a message that announces a batch in mapped memory. The message
// has no other content.
type mappedBatch struct {
	Delivery uint32          `json:"delivery"` // its number in the session
	Bytes    int             `json:"bytes"`    // of the IPC stream in the segment
	Cursor   json.RawMessage `json:"cursor"`
}

// claimSession returns the session that a DoGet names, or nil if there is none. Without a session,
// batches are sent over the network. The client learns which: its session may be one of another server,
// whose socket has the same path on the client's host.
func (s *Server) claimSession(of grpc.ServerStream) *local.Session {
	ids := metadata.ValueFromIncomingContext(of.Context(), headerSession)
	if len(ids) != 1 || s.options.Local == nil {
		return nil
	}
	session := s.options.Local.Claim(ids[0])
	if session != nil {
		_ = of.SetHeader(metadata.Pairs(headerSession, ids[0])) // this fails only if the call has ended
	}
	return session
}

// headerReceiver is the header of a DoGet that a receiver passes on (see package receive).
const headerReceiver = "penstock-receiver"

// How the batches of a stream reach its client, for status.
const (
	wayRing     = "ring"     // as blocks in mapped memory, where possible
	wayMapped   = "mapped"   // in mapped memory, where possible
	wayReceiver = "receiver" // over the network, to a receiver on the client's host
	wayNetwork  = "network"
)

// wayOf returns how the batches of a stream reach its client. session is nil if there is none.
func wayOf(ctx context.Context, session *local.Session) string {
	switch {
	case session.TakesBlocks():
		return wayRing
	case session != nil:
		return wayMapped
	case len(metadata.ValueFromIncomingContext(ctx, headerReceiver)) > 0:
		return wayReceiver
	}
	return wayNetwork
}

// deliver delivers a batch in mapped memory, and sends the message that names it. It reports whether it
// did: without a session, or without room for a segment, the batch must go over the network.
func (o *streamSender) deliver(ctx context.Context, encoder *frames.Encoder, b arrow.RecordBatch, lease *frames.Lease) (bool, error) {
	if o.session == nil {
		return false, nil
	}
	if o.session.TakesBlocks() {
		if delivered, err := o.deliverBlock(ctx, b); delivered || err != nil {
			return delivered, err
		}
		o.session.Announce()
	}
	if !o.session.Takes() {
		return false, nil
	}
	if err := o.stream.waiting(func() error { return o.session.Wait(ctx) }); err != nil {
		return false, err
	}
	in, err := o.segmentOf(encoder, b, lease)
	if in == nil {
		return false, err
	}
	defer in.loan.Release()
	number, err := o.session.Deliver(in.loan)
	if err != nil {
		o.log.DebugContext(ctx, "a batch was not delivered in mapped memory, and is sent over the network", "error", err)
		return false, nil
	}
	o.mappedBytes += int64(in.bytes)
	return true, o.write(frames.NewFrame(jsontext.Of(mappedBatch{number, in.bytes, json.RawMessage(o.cursor.Text(&o.planText))})))
}

// segmentBatch is a segment that holds a batch as a complete IPC stream. Several streams may
// deliver it.
type segmentBatch struct {
	loan  *segment.Loan
	bytes int // of the IPC stream
}

// Release ends the keeping of a batch's segment. It implements batch.Attachment.
func (s *segmentBatch) Release() { s.loan.Unkeep() }

// segmentOf returns the segment of a batch, which streams that send the same batch share. The
// segment is kept for streams that will send the batch later, as long as there are such streams and
// no other batch needs the memory. segmentOf returns nil if there is no room. The caller releases
// the loan.
func (o *streamSender) segmentOf(encoder *frames.Encoder, b arrow.RecordBatch, lease *frames.Lease) (in *segmentBatch, err error) {
	shared, ok := b.(*batch.Charged)
	if !ok {
		return o.copied(encoder, b, lease)
	}
	shared.Attach(func(attached batch.Attachment) batch.Attachment {
		if before, ok := attached.(*segmentBatch); ok && before.loan.Revive() {
			in = before
			return in
		}
		if in, err = o.copied(encoder, b, lease); in == nil {
			return attached
		}
		in.loan.Keep()
		return in
	})
	return in, err
}

// copied copies a batch into a segment. It returns nil if there is no room.
func (o *streamSender) copied(encoder *frames.Encoder, b arrow.RecordBatch, lease *frames.Lease) (*segmentBatch, error) {
	all, err := encoder.Complete(b, lease)
	if err != nil {
		return nil, err
	}
	size := all.Size()
	loan := o.options.Local.Lend(size)
	if loan == nil {
		return nil, nil
	}
	written, err := all.Write(loan.Memory()[:size], o.options.Cores)
	if err == nil && written != size {
		err = fault.New(fault.Internal, "a batch took %d bytes of a segment instead of %d", written, size)
	}
	if err != nil {
		loan.Release()
		return nil, err
	}
	return &segmentBatch{loan, size}, nil
}
