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
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
)

// lastMessage is the content of the message that a client sends after its last batch. A stream that
// ends without this message is incomplete. Without it, the server could not tell a complete stream
// from one whose writing program failed, because Flight libraries end both in the same way.
type lastMessage struct {
	Rows *int64 `json:"rows"`
}

// Source receives the messages of a call.
type Source interface {
	// RecvMsg receives a message, as grpc.ServerStream does.
	RecvMsg(m any) error
}

// Pace limits how long a call waits for its client.
type Pace interface {
	// Wait waits until done is closed. It fails if the context ends, or if the client, which has
	// sent the given number of bytes so far, is too slow.
	Wait(ctx context.Context, done <-chan struct{}, received int64) error
}

// Options configure the rows of a call.
type Options struct {
	Limit  int64 // the maximum bytes of a message
	Pace   Pace
	Budget *budget.Budget
}

// Rows are the rows of one call. A message is received when a batch is read from Rows or, if memory
// is plentiful, while the previous batch is in use. Flow control of the connection bounds the bytes
// that a client can send ahead.
type Rows struct {
	receiver *receiver                               // nil: the rows are an Arrow stream
	next     func(context.Context) (*message, error) // receives or reads a message
	limit    int64                                   // the maximum bytes of a message
	schema   *arrow.Schema
	nodes    int // the number of arrays of a batch
	views    int // how many of these are arrays of views
	reader   *ipc.Reader
	held     *budget.Reservation // memory of the message that is being received, or of the last batch
	kept     *budget.Reservation // memory of dictionaries and of the schema
	first    *message            // the message with the schema; nil once the schema has been read
	message  *ipc.Message        // the last message
	sizes    map[int64]int64     // the sizes of dictionaries, by id
	counts   Counts

	expanded  int64 // bytes of decompressed bodies and of the values of dictionaries and views
	declared  int64 // the number of rows that the client's last message declares
	completed bool  // the client's last message has arrived
}

// Counts are the numbers of messages, batches and rows that have arrived.
type Counts struct {
	Columns int
	Rows    int64
	Batches int64
	Bytes   int64 // of messages
}

// Open returns the rows of a call. The call's first message must have been received and charged.
// The caller closes the rows, and then the first message. If Open fails, the caller closes only the
// first message.
func Open(ctx context.Context, source Source, first *First, o Options) (*Rows, error) {
	message, err := first.open(ctx)
	if err != nil {
		return nil, err
	}
	p := &Rows{limit: o.Limit, first: message, held: first.held, sizes: map[int64]int64{}}
	p.receiver = newReceiver(source, o)
	if p.kept, err = o.Budget.Reserve("dictionaries that a client sends", 0); err != nil {
		return nil, err
	}
	p.next = p.receive
	if err := p.begin(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// begin reads the schema in the first message.
func (p *Rows) begin(ctx context.Context) error {
	if err := p.kept.GrowWait(ctx, schemaMemory*int64(len(p.first.header))); err != nil {
		return err
	}
	if err := p.first.rewriteSchema(); err != nil {
		return err
	}
	var err error
	if p.reader, err = ipc.NewReaderFromMessageReader(messages(func() (*ipc.Message, error) { return p.following(ctx) })); err == nil && p.reader.Schema() != nil {
		p.schema = p.reader.Schema()
		p.nodes, p.views, err = arraysOf(p.schema.Fields())
	}
	if err != nil {
		return p.failure(ctx, err)
	}
	if p.schema.NumFields() == 0 {
		return fault.InvalidField("columns", "the schema has no columns").WithRemedy("send the columns of the table")
	}
	return nil
}

// Reader returns a reader of the rows. The context must be the one that Open got. The caller
// releases the reader before it closes p. The reader calls begin before it receives the first
// batch.
func (p *Rows) Reader(ctx context.Context, begin func() error) array.RecordReader {
	begin = sync.OnceValue(begin)
	return batch.FromFuncContext(ctx, p.schema, func(ctx context.Context) (arrow.RecordBatch, error) {
		if err := begin(); err != nil {
			return nil, err
		}
		return p.batch(ctx)
	}, nil)
}

// Counts returns the numbers of messages, batches and rows that have arrived so far.
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
	if p.receiver != nil {
		p.receiver.close()
	}
	p.held.Release()
	p.kept.Release()
}

// Cause returns the error that ended a call, given the error of the code that was using a batch at
// that time. If the next message was too large, gRPC has ended the call's context.
func (p *Rows) Cause(err error) error { return p.receiver.cause(err) }

// batch returns the next batch. It returns nil after the last batch if the stream is complete.
func (p *Rows) batch(ctx context.Context) (arrow.RecordBatch, error) {
	if !p.reader.Next() {
		if err := p.reader.Err(); err != nil {
			return nil, p.failure(ctx, err)
		}
		return nil, p.checkEnd()
	}
	b := p.reader.RecordBatch()
	if err := p.validated(b); err != nil {
		return nil, fault.New(fault.Invalid, "batch %d is not valid: %w", p.counts.Batches+1, err).WithRemedy("write the rows with an Arrow library")
	}
	if err := p.checkExpanded(); err != nil {
		return nil, err
	}
	p.counts.Batches++
	p.counts.Rows += b.NumRows()
	b.Retain()
	return b, nil
}

// allowed returns the maximum number of bytes that the rows may expand to, which grows with the
// bytes received so far.
func (p *Rows) allowed() int64 { return freeExpanded + maxExpansion*p.counts.Bytes }

// checkExpanded returns an error if the rows have expanded to more bytes than allowed returns.
func (p *Rows) checkExpanded() error {
	if p.expanded <= p.allowed() {
		return nil
	}
	return fault.New(fault.Exhausted, "the %d bytes received expand to %d bytes of rows, more than %d", p.counts.Bytes, p.expanded, p.allowed()).
		WithRemedy("send fewer rows in a call, or without compression, dictionaries and views")
}

// validated counts the bytes of the repeated values of a batch, and returns an error if the batch's
// offsets, sizes or codes do not fit its buffers. The Arrow library panics at some of these faults,
// and it reads the text of each view. A few received bytes could therefore cause hours of work. For
// this reason, a batch that expands to more bytes than allowed is not validated; the caller refuses
// it.
func (p *Rows) validated(b arrow.RecordBatch) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%v", value)
		}
	}()
	for _, column := range b.Columns() {
		p.expanded += conform.Repeated(column)
	}
	if p.checkExpanded() != nil { // the caller calls checkExpanded again and returns its error
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

// failure converts an error of the Arrow library. Errors of this server that it wraps, and errors
// of the connection, are returned as they are. Any other error becomes an error about the client's
// message.
func (p *Rows) failure(ctx context.Context, err error) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return e
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var onWire interface{ GRPCStatus() *status.Status }
	if errors.As(err, &onWire) {
		return err
	}
	return fault.New(fault.Invalid, "message %d of the stream is not a valid Arrow message: %w", p.counts.Batches+2, err).
		WithRemedy("write the rows with an Arrow Flight library")
}

// following returns the next message in the form that the Arrow library reads. It releases the
// previous message.
func (p *Rows) following(ctx context.Context) (*ipc.Message, error) {
	if p.message != nil {
		p.message.Release()
		p.message = nil
	}
	next, err := p.arrow(ctx)
	if err != nil {
		return nil, err
	}
	body := memory.NewBufferWithAllocator(next.body, next.memory)
	defer body.Release() // the message retains it
	p.message = ipc.NewMessage(memory.NewBufferBytes(next.header), body)
	return p.message, nil
}

// messages adapts a function that returns the next message to ipc.MessageReader.
type messages func() (*ipc.Message, error)

// Message implements ipc.MessageReader.
func (m messages) Message() (*ipc.Message, error) { return m() }

// Retain implements ipc.MessageReader. It does nothing, because the owner of the rows closes them.
func (messages) Retain() {}

// Release implements ipc.MessageReader.
func (messages) Release() {}

// arrow returns the next message that contains an Arrow message, or io.EOF after the last one.
func (p *Rows) arrow(ctx context.Context) (*message, error) {
	if m := p.first; m != nil {
		p.first = nil
		return m, nil
	}
	for {
		m, err := p.next(ctx)
		switch {
		case errors.Is(err, io.EOF) && !p.completed:
			return nil, incomplete(p.counts.Rows)
		case err != nil:
			return nil, err
		case p.completed:
			return nil, fault.New(fault.Invalid, "a message came after the last one").WithRemedy("send the number of rows after the last batch")
		case len(m.header) > 0:
			if err := p.account(ctx, m); err != nil || p.receiver == nil {
				return m, err
			}
			return m, p.receiver.receiveAhead()
		}
		if err := p.end(m.metadata); err != nil {
			return nil, err
		}
	}
}

// receive receives the next message.
func (p *Rows) receive(ctx context.Context) (m *message, err error) {
	m, p.held, err = p.receiver.receive(ctx, p.held, p.counts.Bytes)
	return m, err
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

// account decompresses a message and gives it a new header, so that the Arrow library can decode it
// without relying on sizes that the client claims. It then replaces the reservation for the maximum
// size by a reservation for the message's real size.
func (p *Rows) account(ctx context.Context, m *message) error {
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
		if err := p.held.GrowWait(ctx, more); err != nil {
			return err
		}
	}
	if err := m.unpack(&head, unpacked); err != nil {
		return err
	}
	m.header, m.metadata = head.encode(), nil
	size := m.size()
	if head.isDictionary {
		if err := p.kept.GrowWait(ctx, size); err != nil {
			return err
		}
		p.kept.Shrink(p.sizes[head.dictionary])
		p.sizes[head.dictionary] = size
		size = 0
	}
	p.held.Shrink(p.held.Held() - size)
	return nil
}

// headerCopies is how many copies of a header are in memory while the header is read and a new one
// is written.
const headerCopies = 3

// fits returns an error if a message does not fit the schema of the rows, or has too many rows.
func (p *Rows) fits(head *batchHeader) error {
	switch {
	case head.rows > maxBatchRows:
		return fault.New(fault.Exhausted, "a batch has %d rows, more than %d", head.rows, maxBatchRows).WithRemedy("send smaller batches")
	case !head.isDictionary && len(head.nodes) != p.nodes:
		return fault.New(fault.Invalid, "a batch has %d arrays, and the schema %d: it has another schema", len(head.nodes), p.nodes).
			WithRemedy("send all batches with the schema of the first message")
	case !head.isDictionary && len(head.variadic) < p.views:
		return fault.New(fault.Invalid, "a batch has %d columns of views, and the schema %d", len(head.variadic), p.views).WithRemedy("write the rows with an Arrow library")
	case head.isDelta:
		return fault.New(fault.Invalid, "a message adds values to a dictionary, which this version does not read").
			WithRemedy("send the whole dictionary, or texts instead of dictionaries")
	}
	return nil
}
