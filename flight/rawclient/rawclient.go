// Package rawclient sends HTTP/2 frames to a Flight server that no gRPC library sends: it opens calls without their requests, sends
// parts of messages, and reads nothing. It is for tests and attacks. It does not read on its own, and obeys no window.
package rawclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Types and flags of frames.
const (
	frameMessage, frameHeaders, frameReset, frameSettings, framePing, frameGoAway, frameWindow = 0, 1, 3, 4, 6, 7, 8

	flagEndStream, flagAck, flagEndHeaders = 1, 1, 4

	maxFrame = 16 << 10
)

// Header is a header of a call.
type Header struct{ Name, Value string }

// Conn is a connection to a server. It is not safe for concurrent use, except that one goroutine may read while another one
// writes.
type Conn struct {
	net.Conn
	next  uint32 // the stream of the next call
	flags byte   // of the last frame that was read
}

// New begins HTTP/2 on a connection.
func New(conn net.Conn) (*Conn, error) {
	_, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, nil)...))
	return &Conn{Conn: conn, next: 1}, err
}

// frame returns the bytes of a frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	out := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	return append(out, payload...)
}

// Open opens a call of a method, such as "GetFlightInfo", without its request. More fields may follow those of every call.
func (c *Conn) Open(method string, more ...Header) (stream uint32, err error) {
	stream = c.next
	c.next += 2
	_, err = c.Write(Opening(stream, method, more...))
	return stream, err
}

// Opening returns the bytes that open a call on a stream.
func Opening(stream uint32, method string, more ...Header) []byte {
	var fields []byte
	for _, f := range append([]Header{
		{":method", "POST"},
		{":scheme", "http"},
		{":authority", "x"},
		{":path", "/arrow.flight.protocol.FlightService/" + method},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, more...) {
		fields = Literal(fields, f)
	}
	return Headers(stream, fields)
}

// Headers returns a frame with a block of header fields, of at most 16 KiB, that ends the headers of a call.
func Headers(stream uint32, fields []byte) []byte {
	return frame(frameHeaders, flagEndHeaders, stream, fields)
}

// Literal appends a header field as it is.
func Literal(to []byte, f Header) []byte {
	to = append(to, 0)
	for _, text := range []string{f.Name, f.Value} {
		to = append(appendLength(to, len(text)), text...)
	}
	return to
}

// Indexed appends a header field to the dynamic table of the connection. References to it are the byte 190, as long as it is the last one.
func Indexed(to []byte, f Header) []byte {
	at := len(to)
	to = Literal(to, f)
	to[at] = 1 << 6
	return to
}

// appendLength appends the length of a text, an integer with a prefix of 7 bits.
func appendLength(to []byte, n int) []byte {
	const most = 1<<7 - 1
	if n < most {
		return append(to, byte(n))
	}
	return binary.AppendUvarint(append(to, most), uint64(n-most))
}

// Begin begins a message of a size with its first n bytes, all zero.
func (c *Conn) Begin(stream uint32, size, n int) error {
	if _, err := c.Write(frame(frameMessage, 0, stream, binary.BigEndian.AppendUint32([]byte{0}, uint32(size)))); err != nil {
		return err
	}
	return c.More(stream, n)
}

// More sends n more bytes of a message, all zero.
func (c *Conn) More(stream uint32, n int) error {
	var out []byte
	for ; n > 0; n -= maxFrame {
		out = append(out, frame(frameMessage, 0, stream, make([]byte, min(n, maxFrame)))...)
	}
	_, err := c.Write(out)
	return err
}

// Request sends a whole message, which ends the client's side of the call.
func (c *Conn) Request(stream uint32, message []byte) error {
	rest := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	var out []byte
	for len(rest) > maxFrame {
		out = append(out, frame(frameMessage, 0, stream, rest[:maxFrame])...)
		rest = rest[maxFrame:]
	}
	_, err := c.Write(append(out, frame(frameMessage, flagEndStream, stream, rest)...))
	return err
}

// Reset resets a call.
func (c *Conn) Reset(stream uint32) error {
	_, err := c.Write(frame(frameReset, 0, stream, []byte{0, 0, 0, 8}))
	return err
}

// Ping sends a ping, and reads until the server answers it.
func (c *Conn) Ping() error {
	if _, err := c.Write(frame(framePing, 0, 0, make([]byte, 8))); err != nil {
		return err
	}
	return c.await(func(kind byte, _ uint32) bool { return kind == framePing && c.flags&flagAck != 0 })
}

// ErrGoAway is wrapped by the error of a Read after the server has said that it ends the connection.
var ErrGoAway = errors.New("the server ends the connection")

// AwaitReset reads until the server resets a call.
func (c *Conn) AwaitReset() (stream uint32, err error) {
	err = c.await(func(kind byte, of uint32) bool {
		stream = of
		return kind == frameReset
	})
	return stream, err
}

// AwaitEnd reads until the server ends a call, and returns its stream.
func (c *Conn) AwaitEnd() (stream uint32, err error) {
	err = c.await(func(kind byte, of uint32) bool {
		stream = of
		return kind == frameReset || kind == frameHeaders && c.flags&flagEndStream != 0
	})
	return stream, err
}

// AwaitWindow reads until the server lets a call send more: all of its message, once it has read its size.
func (c *Conn) AwaitWindow(stream uint32) error {
	return c.await(func(kind byte, of uint32) bool { return kind == frameWindow && of == stream })
}

// await reads until a frame, and answers pings meanwhile.
func (c *Conn) await(found func(kind byte, stream uint32) bool) error {
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return err
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.Conn, payload); err != nil {
			return err
		}
		c.flags = head[4]
		switch {
		case found(head[3], binary.BigEndian.Uint32(head[5:])):
			return nil
		case head[3] == frameGoAway:
			return fmt.Errorf("%w: %s", ErrGoAway, bytes.TrimLeft(payload[8:], "\x00"))
		case head[3] == framePing && head[4]&flagAck == 0:
			if _, err := c.Write(frame(framePing, flagAck, 0, payload)); err != nil {
				return err
			}
		}
	}
}
