package localtest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/penstock/penstock/internal/segment/segmenttest"
)

// Plan is the kind of the record that passes a tensor plan.
const Plan = 4

// The kinds of packets that a client which accepts blocks receives.
const (
	NewRing  = 1
	InRing   = 2
	Message  = 3
	Accepted = 4
)

// BlockPacket is a packet that a client which accepts blocks receives.
type BlockPacket struct {
	Kind, Number  uint32
	Offset, Bytes uint64
	Cursor, Rows  uint32
	Step          uint64
}

// SendPlan passes a tensor plan, and waits until the server has received it.
func (c *SessionClient) SendPlan(plan []byte) error {
	record := binary.LittleEndian.AppendUint32(nil, Plan)
	record = binary.LittleEndian.AppendUint32(record, 0)
	if err := segmenttest.SendSealed(c.UnixConn, record, plan); err != nil {
		return err
	}
	p, err := c.packet()
	if err == nil && p.Kind != Accepted {
		err = fmt.Errorf("a tensor plan was answered by a packet of kind %d", p.Kind)
	}
	return err
}

// packet receives a packet that passes nothing.
func (c *SessionClient) packet() (p BlockPacket, err error) {
	packet := make([]byte, binary.Size(p)+1)
	n, err := c.Read(packet)
	if err != nil {
		return p, err
	}
	return p, decode(packet[:n], &p)
}

func decode(packet []byte, to *BlockPacket) error {
	if n, err := binary.Decode(packet, binary.LittleEndian, to); err != nil || n != len(packet) {
		return errors.Join(err, fmt.Errorf("a packet has %d bytes", len(packet)))
	}
	return nil
}

// ReceiveBlock returns the next packet and, if the packet passes a ring, the ring's memory. The
// caller closes the memory. newRing says which of both the test expects.
func (c *SessionClient) ReceiveBlock(newRing bool) (p BlockPacket, memory *segmenttest.Received, err error) {
	if !newRing {
		p, err = c.packet()
		return p, nil, err
	}
	packet := make([]byte, binary.Size(p)+1)
	n, memory, err := segmenttest.ReceiveWritable(c.UnixConn, packet)
	if err != nil {
		return p, nil, err
	}
	return p, memory, decode(packet[:n], &p)
}
