package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// streamWriter encodes batches as an Arrow IPC stream, without copying their values: write gets
// the parts of each message.
type streamWriter struct {
	schema  *arrow.Schema
	indexed bool
	write   func(part []byte)
	writer  *ipc.Writer
	begun   bool // the schema was written
	again   bool // the library is going to write the schema again
}

func newStreamWriter(schema *arrow.Schema, write func([]byte)) *streamWriter {
	w := &streamWriter{schema: schema, write: write}
	for _, f := range schema.Fields() {
		w.indexed = w.indexed || f.Type.ID() == arrow.DICTIONARY
	}
	w.open()
	return w
}

func (w *streamWriter) open() {
	w.again = w.begun
	w.writer = ipc.NewWriterWithPayloadWriter(w, ipc.WithSchema(w.schema), ipc.WithAllocator(memory.NewGoAllocator()))
}

// batch writes a batch, after its dictionaries. As in the product, a writer does not compare them
// with those of the previous batch.
func (w *streamWriter) batch(b arrow.RecordBatch) error {
	if err := w.writer.Write(b); err != nil {
		return err
	}
	if !w.indexed {
		return nil
	}
	err := w.writer.Close()
	w.open()
	return err
}

// Start implements ipc.PayloadWriter.
func (*streamWriter) Start() error { return nil }

// WritePayload implements ipc.PayloadWriter.
func (w *streamWriter) WritePayload(p ipc.Payload) error {
	if w.again {
		w.again = false
		return nil
	}
	w.begun = true
	_, err := p.WritePayload(w)
	return err
}

// Close implements ipc.PayloadWriter.
func (*streamWriter) Close() error { return nil }

// Write implements io.Writer.
func (w *streamWriter) Write(part []byte) (int, error) {
	w.write(part)
	return len(part), nil
}

// maxCopied bounds the parts that are copied: the library reuses the memory of its short ones.
const maxCopied = 1 << 10

// collected are parts that are written at once. It copies short ones, and refers to the others.
type collected struct{ parts net.Buffers }

func (c *collected) add(part []byte) {
	if len(part) <= maxCopied {
		part = append([]byte(nil), part...)
	}
	if len(part) > 0 {
		c.parts = append(c.parts, part)
	}
}

// writeTo writes the parts, and releases them.
func (c *collected) writeTo(to io.Writer) error {
	all := c.parts
	_, err := all.WriteTo(to)
	c.parts = c.parts[:0]
	return err
}

// messages are Arrow messages that are read without a copy: next returns the header and the body of
// the following one, which stay valid until the batch that follows is read.
type messages struct {
	next func() (header, body []byte, err error)
}

// Message implements ipc.MessageReader.
func (m messages) Message() (*ipc.Message, error) {
	header, body, err := m.next()
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(memory.NewBufferBytes(header), memory.NewBufferBytes(body)), nil
}

// Retain implements ipc.MessageReader.
func (messages) Retain() {}

// Release implements ipc.MessageReader.
func (messages) Release() {}

// errCut is returned for memory that ends within a message.
var errCut = errors.New("the memory ends within a message")

// prefix is the number of bytes before a message's header: a marker, and the header's length.
const prefix = 8

// inMemory returns the messages of an IPC stream that lies in memory.
func inMemory(all []byte) messages {
	return messages{func() (header, body []byte, err error) {
		if len(all) < prefix {
			return nil, nil, io.EOF
		}
		length := int(binary.LittleEndian.Uint32(all[4:]))
		if length == 0 {
			return nil, nil, io.EOF
		}
		if len(all) < prefix+length {
			return nil, nil, errCut
		}
		header, all = all[prefix:prefix+length], all[prefix+length:]
		of := ipc.NewMessage(memory.NewBufferBytes(header), memory.NewBufferBytes(nil))
		defer of.Release()
		if int64(len(all)) < of.BodyLen() {
			return nil, nil, errCut
		}
		body, all = all[:of.BodyLen()], all[of.BodyLen():]
		return header, body, nil
	}}
}

// consumer is what a client does with batches.
type consumer struct {
	totals

	sum bool // all columns; otherwise rows are counted
}

// all reads a reader to its end.
func (c *consumer) all(from array.RecordReader, err error) error {
	if err != nil {
		return err
	}
	defer from.Release()
	for from.Next() {
		if !c.sum {
			c.Rows += from.RecordBatch().NumRows()
		} else if err := c.add(from.RecordBatch()); err != nil {
			return err
		}
	}
	return from.Err()
}
