package frames

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Encoder encodes the batches of one stream as frames. Buffers that the Arrow library computes
// for them (offsets of slices, bitmaps) are allocated on the Go heap.
type Encoder struct {
	schema  *arrow.Schema
	indexed bool          // the schema has dictionaries
	head    message       // the message of the schema; empty before schemaMessage
	writer  *ipc.Writer   // nil: the next batch makes one
	begun   bool          // the writer has written its own schema message
	made    []message     // the messages of the current batch
	checked *arrow.Schema // equal to schema
}

// NewEncoder returns an encoder of batches of a schema. The caller closes it.
func NewEncoder(schema *arrow.Schema) *Encoder {
	return &Encoder{schema: schema, indexed: slices.ContainsFunc(schema.Fields(), func(field arrow.Field) bool { return field.Type.ID() == arrow.DICTIONARY })}
}

// newWriter replaces the writer. The new writer takes the schema of its first batch, so that the
// library's comparison with the schema of each batch is cheap: it compares field by field only if
// the pointers differ. The encoder has already compared the schemas.
func (f *Encoder) newWriter() {
	f.begun = false
	f.writer = ipc.NewWriterWithPayloadWriter(payloads{f}, ipc.WithAllocator(memory.NewGoAllocator()))
}

// First returns the frame of the schema. The library would write the schema with the first
// batch; clients need it earlier.
func (f *Encoder) First() (*Frame, error) {
	m, err := f.schemaMessage()
	return m.frame(nil), err
}

// schemaMessage returns the message of the schema, which is encoded once.
func (f *Encoder) schemaMessage() (_ message, err error) {
	if f.head.header == nil {
		p := ipc.GetSchemaPayload(f.schema, memory.NewGoAllocator())
		defer p.Release()
		f.head, err = encodedPayload(&p)
	}
	return f.head, err
}

// Batch returns the frames of a batch: first those of its dictionaries, if any, and then the frame
// of the batch itself, which carries the metadata. The frames point into the batch's memory, which
// the lease retains. The caller releases the lease, and the frames that it did not send, even after
// an error.
func (f *Encoder) Batch(b arrow.RecordBatch, metadata []byte, lease *Lease) ([]*Frame, error) {
	messages, err := f.messages(b, lease)
	if err != nil {
		return nil, err
	}
	made := make([]*Frame, len(messages))
	for i, m := range messages {
		made[i] = m.frame(lease)
	}
	made[len(made)-1].metadata = metadata
	return made, nil
}

// messages returns the messages of a batch. They are encoded once for all leases on it.
func (f *Encoder) messages(b arrow.RecordBatch, lease *Lease) ([]message, error) {
	if err := f.check(b.Schema()); err != nil {
		return nil, err
	}
	return lease.encoded().once(func() ([]message, error) { return f.encode(b) })
}

// check checks that a batch has the stream's schema. The check is needed because another stream may
// have encoded the batch.
func (f *Encoder) check(schema *arrow.Schema) error {
	if schema == f.checked {
		return nil
	}
	if !schema.Equal(f.schema) {
		return fault.New(fault.Internal, "a batch has the schema %s in a stream of the schema %s", schema, f.schema)
	}
	f.checked = schema
	return nil
}

// encode returns the messages of a batch, which point into its memory. A writer keeps the
// dictionaries of its last batch, whose memory no lease accounts for once the batch is sent. So if
// there are dictionaries, each batch has a new writer.
func (f *Encoder) encode(b arrow.RecordBatch) ([]message, error) {
	f.made = nil
	if f.writer == nil {
		f.newWriter()
	}
	if f.indexed {
		defer f.Close() //nolint:errcheck // writes nothing; failures are returned by Write
	}
	if err := f.writer.Write(b); err != nil {
		return nil, fault.New(fault.Internal, "write a batch of %d rows as Arrow: %w", b.NumRows(), err)
	}
	return f.made, nil
}

// Close releases the dictionaries of the last batch, which the library holds.
func (f *Encoder) Close() error {
	if f.writer == nil {
		return nil
	}
	defer func() { f.writer = nil }()
	return f.writer.Close()
}

// payloads is an ipc.PayloadWriter that makes the messages of the current batch.
type payloads struct{ of *Encoder }

// Start implements ipc.PayloadWriter.
func (payloads) Start() error { return nil }

// WritePayload implements ipc.PayloadWriter.
func (w payloads) WritePayload(p ipc.Payload) error {
	f := w.of
	if !f.begun {
		f.begun = true
		return nil
	}
	m, err := encodedPayload(&p)
	f.made = append(f.made, m)
	return err
}

// Close implements ipc.PayloadWriter.
func (payloads) Close() error { return nil }
