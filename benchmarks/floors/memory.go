package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/segment/segmenttest"
)

const (
	slotMargin = 1.25 // of a slot's size to that of the first batch
	place      = 16   // bytes of a message to the client: where an IPC stream begins, and its length
)

// mapped is memory that can be passed to another process.
type mapped struct {
	*segment.Owned

	stream []span // of batches that lie there
}

// span is a part of mapped memory.
type span struct{ from, length int }

// lie returns the batches of a form as one IPC stream each, in memory that can be mapped.
func lie(form ready) (*mapped, error) {
	var all bytes.Buffer
	var stream []span
	for i := range form.batches {
		from := all.Len()
		writer := newStreamWriter(form.schema, func(part []byte) { all.Write(part) })
		if err := writer.batch(form.at(i)); err != nil {
			return nil, err
		}
		stream = append(stream, span{from, all.Len() - from})
		all.Write(make([]byte, -all.Len()&63)) // Arrow aligns buffers to 64 bytes
	}
	memory, err := segment.New(all.Len())
	if err != nil {
		return nil, err
	}
	copy(memory.Memory(), all.Bytes())
	return &mapped{memory, stream}, nil
}

// passMemory passes memory to a client and then, for each batch, where it lies. The client returns each
// batch with one byte, in their order.
func (s *server) passMemory(c net.Conn, w way, name string) (err error) {
	to, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("a connection of type %T passes no memory", c)
	}
	form, at := s.forms[name], s.lying[name]
	size, window := 0, len(form.batches)
	if w.copied {
		size, window = int(float64(at.stream[0].length)*slotMargin)&^63, slots
		memory, err := segment.New(size * slots)
		if err != nil {
			return err
		}
		at = &mapped{Owned: memory}
		defer func() { err = errors.Join(err, memory.Close()) }()
	}
	if err := at.Send(to, []byte{0}); err != nil {
		return err
	}
	returned := make([]byte, window)
	for i, out := 0, 0; i < s.batches; i, out = i+1, out+1 {
		if out == window {
			n, err := to.Read(returned)
			if err != nil {
				return err
			}
			out -= n
		}
		one := span{i % slots * size, 0}
		if !w.copied {
			one = at.stream[i%len(at.stream)]
		} else if one.length, err = copyInto(at.Memory()[one.from:][:size], form, i); err != nil {
			return err
		}
		message := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(one.from)), uint64(one.length))
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
	if err := to.CloseWrite(); err != nil {
		return err
	}
	// The memory is released when the client has returned all of it.
	_, err = io.Copy(io.Discard, to)
	return err
}

// copyInto writes a batch into a slot as an IPC stream, and returns its length.
func copyInto(memory []byte, form ready, i int) (length int, err error) {
	writer := newStreamWriter(form.schema, func(part []byte) {
		if length+len(part) > len(memory) {
			err = fmt.Errorf("batch %d does not fit in %d bytes", i, len(memory))
			return
		}
		length += copy(memory[length:], part)
	})
	failed := writer.batch(form.at(i))
	return length, errors.Join(failed, err)
}

// readMapped reads a stream of mapped batches.
func readMapped(from *net.UnixConn, p *pass, c *consumer) (err error) {
	_, received, err := segmenttest.Receive(from, make([]byte, 1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, received.Close()) }()
	memory := received.Memory()
	message := make([]byte, place)
	for {
		if _, err := io.ReadFull(from, message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		at, length := binary.LittleEndian.Uint64(message), binary.LittleEndian.Uint64(message[8:])
		if at > uint64(len(memory)) || length > uint64(len(memory))-at {
			return errCut
		}
		if err := c.all(ipc.NewReaderFromMessageReader(inMemory(memory[at:][:length]))); err != nil {
			return err
		}
		p.Bytes += int64(length)
		if _, err := from.Write([]byte{0}); err != nil {
			return err
		}
	}
}
