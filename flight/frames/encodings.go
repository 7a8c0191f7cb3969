package frames

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/internal/fault"
)

// message is an Arrow message. Its body points into the memory of a batch, and into buffers that
// the Arrow library computed for the message.
type message struct {
	header []byte
	body   [][]byte
}

// Write appends to the body without a copy. Callers must not change p afterwards.
func (m *message) Write(p []byte) (int, error) {
	m.body = append(m.body, p)
	return len(p), nil
}

// encodedPayload returns a message that points into a payload's memory.
func encodedPayload(p *ipc.Payload) (message, error) {
	meta := p.Meta()
	defer meta.Release()
	m := message{header: meta.Bytes()}
	return m, p.SerializeBody(&m)
}

// frame returns the message as a frame. The lease keeps the memory of the frame's body.
func (m message) frame(lease *Lease) *Frame {
	f := &Frame{header: m.header, lease: lease}
	for _, part := range m.body {
		f.add(part)
	}
	return f
}

// Encodings holds the messages of all batches that have leases, so that streams that send the same
// batch encode it once. A nil *Encodings shares nothing. It is safe for concurrent use.
type Encodings struct {
	mu  sync.Mutex
	all map[arrow.RecordBatch]*batchEncoding
}

// NewEncodings returns encodings that streams share.
func NewEncodings() *Encodings {
	return &Encodings{all: map[arrow.RecordBatch]*batchEncoding{}}
}

// batchEncoding is the messages of one batch.
type batchEncoding struct {
	leases   int // guarded by Encodings.mu
	mu       sync.Mutex
	messages []message // nil: not encoded
}

// enter returns the encoding of a batch, which stays valid until leave.
func (e *Encodings) enter(b arrow.RecordBatch) *batchEncoding {
	if e == nil {
		return &batchEncoding{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.all[b]
	if one == nil {
		one = &batchEncoding{}
		e.all[b] = one
	}
	one.leases++
	return one
}

// leave ends one use of a batch's encoding.
func (e *Encodings) leave(b arrow.RecordBatch) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.all[b]
	if one.leases--; one.leases == 0 {
		delete(e.all, b)
	}
}

// once returns the messages. The first caller encodes them; if it fails, the next caller tries
// again.
func (e *batchEncoding) once(encode func() ([]message, error)) ([]message, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.messages == nil {
		made, err := encode()
		if err != nil {
			return nil, err
		}
		if len(made) == 0 {
			return nil, fault.New(fault.Internal, "a batch was encoded as no message")
		}
		e.messages = made
	}
	return e.messages, nil
}
