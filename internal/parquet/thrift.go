package parquet

import (
	"encoding/binary"
	"errors"
)

// The element types of Thrift's compact protocol, in which footers and page headers are
// stored.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12

	maxThriftDepth = 16 // maximum nesting; page headers need four
)

var errThrift = errors.New("a page header cannot be read")

// thrift reads the compact protocol from the front of a buffer.
type thrift struct {
	rest    []byte
	structs int64 // number of structs skipped
}

// numbers reads a struct whose first fields are numbers into the given variables.
func (t *thrift) numbers(into ...*int64) error {
	return t.fields(func(id int64, kind byte) error {
		if id >= 1 && id <= int64(len(into)) && kind == thriftI32 {
			return t.number(into[id-1])
		}
		return t.skip(kind, maxThriftDepth-1)
	})
}

// number reads a 32-bit number.
func (t *thrift) number(into *int64) error {
	v, err := t.varint()
	if v != int64(int32(v)) {
		return errThrift
	}
	*into = v
	return err
}

// fields calls read for each field of a struct; read consumes the value.
func (t *thrift) fields(read func(id int64, kind byte) error) error {
	var id int64
	for {
		head, err := t.byte()
		if err != nil || head == 0 {
			return err
		}
		if delta := int64(head >> 4); delta != 0 {
			id += delta
		} else if id, err = t.varint(); err != nil {
			return err
		}
		if err := read(id, head&0xf); err != nil {
			return err
		}
	}
}

// skip skips a value.
func (t *thrift) skip(kind byte, depth int) error {
	if depth == 0 {
		return errThrift
	}
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftByte:
		return t.skipBytes(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := t.varint()
		return err
	case thriftDouble:
		return t.skipBytes(8)
	case thriftBinary:
		n, err := t.uvarint()
		if err != nil {
			return err
		}
		return t.skipBytes(n)
	case thriftStruct:
		t.structs++
		return t.fields(func(_ int64, kind byte) error { return t.skip(kind, depth-1) })
	case thriftList, thriftSet:
		return t.skipList(depth)
	case thriftMap:
		return t.skipMap(depth)
	default:
		return errThrift
	}
}

func (t *thrift) skipList(depth int) error {
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
func (t *thrift) listHead() (kind byte, n uint64, err error) {
	head, err := t.byte()
	if err != nil {
		return 0, 0, err
	}
	if n = uint64(head >> 4); n == 15 {
		if n, err = t.uvarint(); err != nil {
			return 0, 0, err
		}
	}
	if n > uint64(len(t.rest)) { // each element takes at least a byte
		return 0, 0, errThrift
	}
	return head & 0xf, n, nil
}

// list calls read for each element of a list, whose element type must be kind.
func (t *thrift) list(kind byte, read func() error) error {
	of, n, err := t.listHead()
	if err != nil {
		return err
	}
	if of != kind && (kind != thriftTrue || of != thriftFalse) {
		return errThrift
	}
	for range n {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (t *thrift) skipMap(depth int) error {
	n, err := t.uvarint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := t.byte()
	if err != nil || n > uint64(len(t.rest)/2) {
		return errThrift
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

// skipElement skips an element of a list or map, where a boolean takes a byte.
func (t *thrift) skipElement(kind byte, depth int) error {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	return t.skip(kind, depth)
}

func (t *thrift) byte() (byte, error) {
	if len(t.rest) == 0 {
		return 0, errThrift
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return b, nil
}

func (t *thrift) uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.rest)
	if n <= 0 {
		return 0, errThrift
	}
	t.rest = t.rest[n:]
	return v, nil
}

func (t *thrift) varint() (int64, error) {
	v, n := binary.Varint(t.rest)
	if n <= 0 {
		return 0, errThrift
	}
	t.rest = t.rest[n:]
	return v, nil
}

func (t *thrift) skipBytes(n uint64) error {
	if n > uint64(len(t.rest)) {
		return errThrift
	}
	t.rest = t.rest[n:]
	return nil
}
