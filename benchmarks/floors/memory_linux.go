package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"golang.org/x/sys/unix"
)

const (
	slotMargin = 1.25 // of a slot's size to that of the first batch
	seals      = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
	place      = 16 // bytes of a message to the client: where an IPC stream begins, and its length
)

// mapped is memory that can be passed to another process. This process alone can write to it.
type mapped struct {
	file   int
	bytes  []byte
	stream []span // of batches that lie there
}

// span is a part of mapped memory.
type span struct{ from, length int }

// newMapped returns zeroed memory, which close releases.
func newMapped(size int) (_ *mapped, err error) {
	m := &mapped{}
	if m.file, err = unix.MemfdCreate("floors", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if err := unix.Ftruncate(m.file, int64(size)); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	// The seal leaves mappings writable that were made before it.
	if m.bytes, err = unix.Mmap(m.file, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(m.file), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return m, nil
}

func (m *mapped) close() error {
	err := unix.Close(m.file)
	if m.bytes != nil {
		err = errors.Join(err, unix.Munmap(m.bytes))
	}
	return err
}

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
	m, err := newMapped(all.Len())
	if err != nil {
		return nil, err
	}
	m.stream = stream
	copy(m.bytes, all.Bytes())
	return m, nil
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
		if at, err = newMapped(size * slots); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.close()) }()
	}
	if _, _, err := to.WriteMsgUnix([]byte{0}, unix.UnixRights(at.file), nil); err != nil {
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
		} else if one.length, err = copyInto(at.bytes[one.from:][:size], form, i); err != nil {
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
func copyInto(slot []byte, form ready, i int) (length int, err error) {
	writer := newStreamWriter(form.schema, func(part []byte) {
		if length+len(part) > len(slot) {
			err = fmt.Errorf("batch %d does not fit in %d bytes", i, len(slot))
			return
		}
		length += copy(slot[length:], part)
	})
	failed := writer.batch(form.at(i))
	return length, errors.Join(failed, err)
}

// readMapped reads a stream of mapped batches.
func readMapped(from *net.UnixConn, p *pass, c *consumer) (err error) {
	memory, err := receiveMemory(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(memory)) }()
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

// receiveMemory maps the memory that a server passes, if it can neither shrink nor be written to by
// other processes.
func receiveMemory(from *net.UnixConn) (memory []byte, err error) {
	one, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := from.ReadMsgUnix(one, rights)
	if err != nil {
		return nil, err
	}
	parsed, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(parsed) != 1 {
		return nil, fmt.Errorf("%d control messages instead of one: %w", len(parsed), err)
	}
	files, err := unix.ParseUnixRights(&parsed[0])
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("%d files instead of one: %w", len(files), err)
	}
	defer func() { err = errors.Join(err, unix.Close(files[0])) }()
	if got, err := unix.FcntlInt(uintptr(files[0]), unix.F_GET_SEALS, 0); err != nil || got != seals {
		return nil, fmt.Errorf("the memory has seals %#x instead of %#x: %w", got, seals, err)
	}
	var is unix.Stat_t
	if err := unix.Fstat(files[0], &is); err != nil {
		return nil, err
	}
	return unix.Mmap(files[0], 0, int(is.Size), unix.PROT_READ, unix.MAP_SHARED)
}
