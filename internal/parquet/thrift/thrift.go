package thrift

import (
	"encoding/binary"
	"errors"
)

// The element types of Thrift's compact protocol, in which footers and page headers are
// stored.
const (
	True   = 1
	False  = 2
	Byte   = 3
	I16    = 4
	I32    = 5
	I64    = 6
	Double = 7
	Binary = 8
	List   = 9
	Set    = 10
	Map    = 11
	Struct = 12

	// MaxDepth is the maximum nesting of structs that are skipped; page headers have four levels.
	MaxDepth = 16
)

// Err is the error for bytes that are not in the compact protocol.
var Err = errors.New("a page header cannot be read")

// Reader reads the compact protocol from the front of a buffer.
type Reader struct {
	Rest    []byte
	Structs int64 // number of structs skipped
}

// Numbers reads a struct. Its first fields must be numbers; they are read into the given variables,
// in order.
func (t *Reader) Numbers(into ...*int64) error {
	return t.Fields(func(id int64, kind byte) error {
		if id >= 1 && id <= int64(len(into)) && kind == I32 {
			return t.Number(into[id-1])
		}
		return t.Skip(kind, MaxDepth-1)
	})
}

// Number reads a 32-bit number.
func (t *Reader) Number(into *int64) error {
	v, err := t.Varint()
	if v != int64(int32(v)) {
		return Err
	}
	*into = v
	return err
}

// Fields calls read for each field of a struct; read consumes the value.
func (t *Reader) Fields(read func(id int64, kind byte) error) error {
	var id int64
	for {
		head, err := t.Byte()
		if err != nil || head == 0 {
			return err
		}
		if delta := int64(head >> 4); delta != 0 {
			id += delta
		} else if id, err = t.Varint(); err != nil {
			return err
		}
		if err := read(id, head&0xf); err != nil {
			return err
		}
	}
}

// Skip skips a value.
func (t *Reader) Skip(kind byte, depth int) error {
	if depth == 0 {
		return Err
	}
	switch kind {
	case True, False:
		return nil
	case Byte:
		return t.SkipBytes(1)
	case I16, I32, I64:
		_, err := t.Varint()
		return err
	case Double:
		return t.SkipBytes(8)
	case Binary:
		n, err := t.Uvarint()
		if err != nil {
			return err
		}
		return t.SkipBytes(n)
	case Struct:
		t.Structs++
		return t.Fields(func(_ int64, kind byte) error { return t.Skip(kind, depth-1) })
	case List, Set:
		return t.skipList(depth)
	case Map:
		return t.skipMap(depth)
	default:
		return Err
	}
}

func (t *Reader) skipList(depth int) error {
	kind, n, err := t.listHead()
	if err != nil {
		return err
	}
	for range n {
		if err := t.skipElement(kind, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// listHead reads the type and number of a list's elements.
func (t *Reader) listHead() (kind byte, n uint64, err error) {
	head, err := t.Byte()
	if err != nil {
		return 0, 0, err
	}
	if n = uint64(head >> 4); n == 15 {
		if n, err = t.Uvarint(); err != nil {
			return 0, 0, err
		}
	}
	if n > uint64(len(t.Rest)) { // each element takes at least a byte
		return 0, 0, Err
	}
	return head & 0xf, n, nil
}

// List calls read for each element of a list, whose element type must be kind.
func (t *Reader) List(kind byte, read func() error) error {
	of, n, err := t.listHead()
	if err != nil {
		return err
	}
	if of != kind && (kind != True || of != False) {
		return Err
	}
	for range n {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Reader) skipMap(depth int) error {
	n, err := t.Uvarint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := t.Byte()
	if err != nil || n > uint64(len(t.Rest)/2) {
		return Err
	}
	for range n {
		if err := t.skipElement(kinds>>4, depth-1); err != nil {
			return err
		}
		if err := t.skipElement(kinds&0xf, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// skipElement skips an element of a list or map. In these, a boolean takes one byte.
func (t *Reader) skipElement(kind byte, depth int) error {
	if kind == True || kind == False {
		kind = Byte
	}
	return t.Skip(kind, depth)
}

// Byte reads a byte.
func (t *Reader) Byte() (byte, error) {
	if len(t.Rest) == 0 {
		return 0, Err
	}
	b := t.Rest[0]
	t.Rest = t.Rest[1:]
	return b, nil
}

// Uvarint reads an unsigned number of variable length.
func (t *Reader) Uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.Rest)
	if n <= 0 {
		return 0, Err
	}
	t.Rest = t.Rest[n:]
	return v, nil
}

// Varint reads a signed number of variable length.
func (t *Reader) Varint() (int64, error) {
	v, n := binary.Varint(t.Rest)
	if n <= 0 {
		return 0, Err
	}
	t.Rest = t.Rest[n:]
	return v, nil
}

// SkipBytes skips n bytes.
func (t *Reader) SkipBytes(n uint64) error {
	if n > uint64(len(t.Rest)) {
		return Err
	}
	t.Rest = t.Rest[n:]
	return nil
}
