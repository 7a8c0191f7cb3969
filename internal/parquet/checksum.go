package parquet

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Page headers are Thrift structs in the compact protocol; these are its
// element types and the header's fields that matter here.
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
	thriftStruct = 12

	headerCompressedSize = 3
	headerCRC            = 4

	thriftDepth = 16 // of nesting: page headers need four
)

var errThrift = errors.New("a page header cannot be read")

// checkCRC verifies the checksum of every page of a column chunk whose header
// has one. The decoder below ignores them. A chunk whose headers cannot be
// followed is damaged.
func checkCRC(chunk []byte) error {
	for len(chunk) > 0 {
		t := thrift{rest: chunk}
		size, crc, err := t.pageHeader()
		switch {
		case err != nil:
			return err
		case size < 0 || size > int64(len(t.rest)):
			return errors.New("a page reaches past its column chunk")
		}
		if page := t.rest[:size]; crc != nil && crc32.ChecksumIEEE(page) != *crc {
			return errors.New("a page does not match its checksum")
		}
		chunk = t.rest[size:]
	}
	return nil
}

// thrift reads the compact protocol from the front of a buffer.
type thrift struct{ rest []byte }

// pageHeader reads a PageHeader: the stored size of the page after it, and its
// checksum where it has one.
func (t *thrift) pageHeader() (size int64, crc *uint32, err error) {
	size = -1
	err = t.fields(func(id int64, kind byte) error {
		if (id != headerCompressedSize && id != headerCRC) || kind != thriftI32 {
			return t.skip(kind, thriftDepth)
		}
		v, err := t.varint()
		if id == headerCRC {
			sum := uint32(v) //nolint:gosec // the checksum is stored as a signed number
			crc = &sum
		} else {
			size = v
		}
		return err
	})
	return size, crc, err
}

// fields calls read for every field of a struct; read consumes the value.
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

// skip passes over a value of a kind.
func (t *thrift) skip(kind byte, depth int) error {
	if depth == 0 {
		return errThrift
	}
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftByte:
		return t.drop(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := t.varint()
		return err
	case thriftDouble:
		return t.drop(8)
	case thriftBinary:
		n, err := t.uvarint()
		if err != nil {
			return err
		}
		return t.drop(n)
	case thriftStruct:
		return t.fields(func(_ int64, kind byte) error { return t.skip(kind, depth-1) })
	case thriftList, thriftSet:
		return t.skipList(depth)
	default: // page headers have no maps
		return errThrift
	}
}

func (t *thrift) skipList(depth int) error {
	head, err := t.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = t.uvarint(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.rest)) { // every element takes a byte at least
		return errThrift
	}
	for range n {
		kind := head & 0xf
		if kind == thriftTrue || kind == thriftFalse {
			kind = thriftByte // a bool takes a byte in a list
		}
		if err := t.skip(kind, depth-1); err != nil {
			return err
		}
	}
	return nil
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

func (t *thrift) drop(n uint64) error {
	if n > uint64(len(t.rest)) {
		return errThrift
	}
	t.rest = t.rest[n:]
	return nil
}
