package rowsin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
)

// lastMessage is what a client says after its last batch. A stream that ends without it is incomplete: the libraries of Flight end
// a stream alike after its last batch, and when the program that writes it fails.
type lastMessage struct {
	Rows *int64 `json:"rows"`
}

// Source is where the messages of a call come from.
type Source interface {
	// RecvMsg receives a message, as grpc.ServerStream does.
	RecvMsg(m any) error
}

// Pace bounds the time that a call waits for its client.
type Pace interface {
	// Wait waits until done is closed. It fails if the context ends, or if the client that has sent some bytes takes too long.
	Wait(ctx context.Context, done <-chan struct{}, received int64) error
}

// Options are the terms of a call.
type Options struct {
	Limit  int64 // bytes of a message
	Pace   Pace
	Budget *budget.Budget
}

// Rows is the rows of one call. It reads the messages of the client as its batches are asked for: the windows of a connection
// bound what a client sends ahead. A message is charged before it is received, as if it had the most bytes that it may have, once
// as it arrives and once as it is decoded.
type Rows struct {
	ctx     context.Context //nolint:containedctx // of the budget's stream
	source  Source
	limit   int64 // bytes of a message
	pace    Pace
	schema  *arrow.Schema
	nodes   int // arrays of a batch of the schema
	views   int // of these
	reader  *ipc.Reader
	held    *budget.Reservation // of the message that is received, or of the last batch
	kept    *budget.Reservation // of dictionaries
	first   *message            // with the schema; nil once it is read
	message *ipc.Message        // the last one
	sizes   map[int64]int64     // of dictionaries, by id
	counts  Counts

	expanded  int64 // that bodies have without compression, and dictionaries and views stand for
	declared  int64 // rows, by the client's last message
	completed bool  // the client's last message has come
}

// Counts is what has come.
type Counts struct {
	Columns int
	Rows    int64
	Batches int64
	Bytes   int64 // of messages
}

// Open returns the rows of a call, whose first message has been received and charged. The caller closes them, and then the first
// message, also if Open fails.
func Open(ctx context.Context, source Source, first *First, o Options) (*Rows, error) {
	message, err := first.open(ctx)
	if err != nil {
		return nil, err
	}
	p := &Rows{ctx: ctx, source: source, limit: o.Limit, pace: o.Pace, first: message, held: first.held, sizes: map[int64]int64{}}
	if p.kept, err = o.Budget.Reserve("dictionaries that a client sends", 0); err != nil {
		return nil, err
	}
	if err = p.kept.GrowWait(ctx, schemaMemory*int64(len(message.header))); err == nil {
		err = message.rewriteSchema()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	if p.reader, err = ipc.NewReaderFromMessageReader(messages{p}); err == nil && p.reader.Schema() != nil {
		p.schema = p.reader.Schema()
		p.nodes, p.views, err = arraysOf(p.schema.Fields())
	}
	switch {
	case err != nil:
		err = p.failure(err)
	case p.schema.NumFields() == 0:
		err = fault.InvalidField("columns", "the schema has no columns").WithRemedy("send the columns of the table")
	default:
		return p, nil
	}
	p.Close()
	return nil, err
}

// Reader returns a reader of the rows, which the caller releases before it closes p. The reader calls begin before the first
// batch is received.
func (p *Rows) Reader(begin func() error) array.RecordReader {
	begin = sync.OnceValue(begin)
	return batch.FromFunc(p.schema, func() (arrow.RecordBatch, error) {
		if err := begin(); err != nil {
			return nil, err
		}
		return p.batch()
	}, nil)
}

// Counts returns what has come so far.
func (p *Rows) Counts() Counts {
	c := p.counts
	c.Columns = p.schema.NumFields()
	return c
}

// Close frees the memory. It may be called once.
func (p *Rows) Close() {
	if p.reader != nil {
		p.reader.Release()
	}
	if p.message != nil {
		p.message.Release()
	}
	p.held.Release()
	p.kept.Release()
}

// batch returns the next batch; nil after the last one, if the client has said that it was.
func (p *Rows) batch() (arrow.RecordBatch, error) {
	if !p.reader.Next() {
		if err := p.reader.Err(); err != nil {
			return nil, p.failure(err)
		}
		return nil, p.checkEnd()
	}
	b := p.reader.RecordBatch()
	if err := p.validated(b); err != nil {
		return nil, fault.New(fault.Invalid, "batch %d is not valid: %w", p.counts.Batches+1, err).WithRemedy("write the rows with a library of Arrow")
	}
	if err := p.checkExpanded(); err != nil {
		return nil, err
	}
	p.counts.Batches++
	p.counts.Rows += b.NumRows()
	b.Retain()
	return b, nil
}

// allowed returns the bytes that the rows may have, for those that have come.
func (p *Rows) allowed() int64 { return freeExpanded + maxExpansion*p.counts.Bytes }

// checkExpanded returns an error if the rows have more bytes than they may have.
func (p *Rows) checkExpanded() error {
	if p.expanded <= p.allowed() {
		return nil
	}
	return fault.New(fault.Exhausted, "the %d bytes that came stand for %d bytes of rows, more than %d", p.counts.Bytes, p.expanded, p.allowed()).
		WithRemedy("send fewer rows in a call, or without compression, dictionaries and views")
}

// validated counts the repeated values of a batch, and returns an error if it has offsets, sizes or codes that do not fit its
// buffers. The library checks some of them by using them. It also reads the text of each view, so the batch is not validated if
// it has more bytes than what is allowed: a few bytes could stand for hours of work.
func (p *Rows) validated(b arrow.RecordBatch) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%v", value)
		}
	}()
	for _, column := range b.Columns() {
		p.expanded += conform.Repeated(column)
	}
	if p.checkExpanded() != nil { // the caller returns it
		return nil
	}
	return array.ValidateRecordFull(b)
}

// checkEnd returns an error unless the input is complete.
func (p *Rows) checkEnd() error {
	switch {
	case !p.completed:
		return incomplete(p.counts.Rows)
	case p.declared != p.counts.Rows:
		return fault.New(fault.Corrupt, "the client has sent %d rows, and %d have arrived", p.declared, p.counts.Rows).WithRemedy("repeat the call with the same token")
	}
	return nil
}

// incomplete is the error for a stream that ended without its last message.
func incomplete(rows int64) error {
	return fault.New(fault.Invalid, `the stream ended after %s without the message {"rows": …}: nothing was written`, fault.Count(int(rows), "row")).
		WithRemedy(`after the last batch, send a message without rows whose app_metadata is {"rows": N}, the number of all rows`)
}

// failure returns an error of the Arrow library as one of the client's, unless it wraps one of this server.
func (p *Rows) failure(err error) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return e
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	var onWire interface{ GRPCStatus() *status.Status }
	if errors.As(err, &onWire) {
		return err
	}
	return fault.New(fault.Invalid, "message %d of the stream is not a valid Arrow message: %w", p.counts.Batches+2, err).
		WithRemedy("write the rows with a library of Arrow Flight")
}

// messages is an ipc.MessageReader of the messages of rows.
type messages struct{ *Rows }

// Message implements ipc.MessageReader.
func (m messages) Message() (*ipc.Message, error) {
	if m.message != nil {
		m.message.Release()
		m.message = nil
	}
	next, err := m.arrow()
	if err != nil {
		return nil, err
	}
	m.message = ipc.NewMessage(memory.NewBufferBytes(next.header), memory.NewBufferBytes(next.body))
	return m.message, nil
}

// Retain implements ipc.MessageReader. The owner closes the rows.
func (messages) Retain() {}

// Release implements ipc.MessageReader.
func (messages) Release() {}

// arrow returns the next message with an Arrow message; io.EOF after the last one.
func (p *Rows) arrow() (*message, error) {
	if m := p.first; m != nil {
		p.first = nil
		return m, nil
	}
	for {
		m, err := p.receive()
		switch {
		case errors.Is(err, io.EOF) && !p.completed:
			return nil, incomplete(p.counts.Rows)
		case err != nil:
			return nil, err
		case p.completed:
			return nil, fault.New(fault.Invalid, "a message came after the last one").WithRemedy("send the number of rows after the last batch")
		case len(m.header) > 0:
			return m, p.account(m)
		}
		if err := p.end(m.metadata); err != nil {
			return nil, err
		}
	}
}

// end reads the client's last message.
func (p *Rows) end(metadata []byte) error {
	var end lastMessage
	if err := json.Unmarshal(metadata, &end); err != nil || end.Rows == nil {
		return fault.New(fault.Invalid, "a message has neither rows nor their number").
			WithRemedy(`after the last batch, send a message whose app_metadata is {"rows": N}`)
	}
	p.declared, p.completed = *end.Rows, true
	return nil
}

// account makes a message one that the Arrow library can decode without allocating what a client claims, and charges what it
// holds from then on, instead of what it could have held.
func (p *Rows) account(m *message) error {
	p.counts.Bytes += m.size()
	head, err := m.inspect()
	if err != nil {
		return err
	}
	if err := p.fits(&head); err != nil {
		return err
	}
	unpacked, beside, err := m.unpacked(&head)
	if err != nil {
		return err
	}
	if max(int64(len(m.body)), unpacked) > p.limit {
		return tooLargeBatch(p.limit)
	}
	p.expanded += unpacked
	if err := p.checkExpanded(); err != nil {
		return err
	}
	most := m.size() + headerCopies*int64(len(m.header)) + unpacked + beside
	if more := most - p.held.Held(); more > 0 {
		if err := p.held.GrowWait(p.ctx, more); err != nil {
			return err
		}
	}
	if err := m.unpack(&head, unpacked); err != nil {
		return err
	}
	m.header, m.metadata = head.encode(), nil
	size := m.size()
	if head.isDictionary {
		if err := p.kept.GrowWait(p.ctx, size); err != nil {
			return err
		}
		p.kept.Shrink(p.sizes[head.dictionary])
		p.sizes[head.dictionary] = size
		size = 0
	}
	p.held.Shrink(p.held.Held() - size)
	return nil
}

// headerCopies is how many times the bytes of a header are held while it is read and written again.
const headerCopies = 3

// fits returns an error for a message that cannot be one of the rows of the schema.
func (p *Rows) fits(head *batchHeader) error {
	switch {
	case head.rows > maxBatchRows:
		return fault.New(fault.Exhausted, "a batch has %d rows, more than %d", head.rows, maxBatchRows).WithRemedy("send smaller batches")
	case !head.isDictionary && len(head.nodes) != p.nodes:
		return fault.New(fault.Invalid, "a batch has %d arrays, and the schema %d: it has another schema", len(head.nodes), p.nodes).
			WithRemedy("send all batches with the schema of the first message")
	case !head.isDictionary && len(head.variadic) < p.views:
		return fault.New(fault.Invalid, "a batch has %d columns of views, and the schema %d", len(head.variadic), p.views).WithRemedy("write the rows with a library of Arrow")
	case head.isDelta:
		return fault.New(fault.Invalid, "a message adds values to a dictionary, which this version does not read").
			WithRemedy("send the whole dictionary, or texts instead of dictionaries")
	}
	return nil
}

// arrived is what a receive returns.
type arrived struct {
	message *message
	err     error
}

// whole returns the message, or why there is none.
func (a arrived) whole(limit int64) (*message, error) {
	if status.Code(a.err) == codes.ResourceExhausted {
		return nil, tooLargeBatch(limit)
	}
	return a.message, a.err
}

// receive receives a message within the time limit.
func (p *Rows) receive() (*message, error) {
	if more := 2*p.limit - p.held.Held(); more > 0 {
		if err := p.held.GrowWait(p.ctx, more); err != nil {
			return nil, err
		}
	}
	result := make(chan arrived, 1)
	done := make(chan struct{})
	go func() { // it ends with the call
		defer close(done)
		m := &message{}
		err := p.source.RecvMsg(m)
		result <- arrived{m, err}
	}()
	err := p.pace.Wait(p.ctx, done, p.counts.Bytes)
	if err == nil || p.ctx.Err() != nil { // gRPC ends a call with a message that is too large
		select {
		case r := <-result:
			return r.whole(p.limit)
		default:
		}
	}
	return nil, err
}
