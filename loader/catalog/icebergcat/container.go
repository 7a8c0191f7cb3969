package icebergcat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// An Avro object container file is "Obj" and 1, a map of metadata, a mark of 16
// bytes, and blocks: the number of records, the number of bytes, the records,
// packed by the codec that the metadata names, and the mark again. Numbers are
// zigzag varints. See "Object Container Files" in the Avro specification, 1.12.
const (
	containerMagic = "Obj\x01"
	codecKey       = "avro.codec"
	avroSchemaKey  = "avro.schema"
	schemaKey      = "schema"  // of the table, as JSON, in a manifest
	contentKey     = "content" // of a manifest: "data" or "deletes"
	markBytes      = 16
	// zeroRecords is how many records of no bytes a block may have: iceberg-go's
	// decoder takes no more.
	zeroRecords = 4 << 10
	// mostEntries is how many entries of metadata a file may have. Iceberg writes ten.
	mostEntries = 4 << 10
	// mostBlock is the largest block, unpacked, that iceberg-go's decoder takes.
	mostBlock = 64 << 20
)

// container hands an Avro file on to a decoder, unpacked: what iceberg-go unpacks
// for itself it does not count. Each block is charged, with the records that it
// says it has, before the decoder sees it. It is an io.Reader; close it.
type container struct {
	unpacked
	perByte int64 // charged for a byte of the records
	codec   codec
	schema  []byte      // of the table when the file was written; nil if it does not say
	form    *recordForm // of the records
	shorter []byte      // the last block without the lengths of values, if it had some
	rest    []byte      // of the file, from the next block on
	mark    []byte
	largest int    // block so far
	ready   []byte // to be read before the block's bytes
	block   []byte // then this
	trail   []byte // then this
	err     error  // that ended it
}

// reading is how an Avro file is read.
type reading struct {
	perByte int64        // charged for a byte of the records
	forms   *recordForms // of the files of the same table
	content string       // of a manifest whose header does not say; "" for a manifest list
}

// newContainer reads a file's header.
func newContainer(a allowance, content []byte, how reading) (*container, error) {
	c := &container{unpacked: unpacked{allowance: a}, perByte: how.perByte}
	rest, ok := bytes.CutPrefix(content, []byte(containerMagic))
	if !ok {
		return nil, errors.New("it does not begin like an Avro file")
	}
	c.rest = rest
	metadata, err := c.metadata()
	if err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	if c.mark, err = c.take(markBytes); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	if c.codec, err = a.codecOf(string(metadata[codecKey])); err != nil {
		return nil, err
	}
	metadata[codecKey] = []byte("null")
	if c.form, err = how.forms.of(a, metadata[avroSchemaKey]); err != nil {
		return nil, err
	}
	metadata[avroSchemaKey] = c.form.text
	if how.content != "" && len(metadata[contentKey]) == 0 {
		// The manifest list says it too. Iceberg's Java library looks nowhere else.
		metadata[contentKey] = []byte(how.content)
	}
	// The decoder takes no value of more than 1 MiB: the schema of some thousand columns.
	c.schema = metadata[schemaKey]
	delete(metadata, schemaKey)
	c.ready = append(encodeMetadata(metadata), c.mark...)
	return c, nil
}

// close gives the codec's memory back.
func (c *container) close() { c.codec.close() }

// Read gives the file as a decoder reads it that unpacks nothing.
func (c *container) Read(p []byte) (int, error) {
	for len(c.ready)+len(c.block)+len(c.trail) == 0 && c.err == nil {
		c.err = c.next()
	}
	for _, from := range []*[]byte{&c.ready, &c.block, &c.trail} {
		if len(*from) > 0 {
			n := copy(p, *from)
			*from = (*from)[n:]
			return n, nil
		}
	}
	return 0, c.err
}

// failure returns why the file could not be handed on, if that was the reason why
// its decoder failed.
func (c *container) failure(decoder error) error {
	if c.err != nil && !errors.Is(c.err, io.EOF) {
		return c.err
	}
	return decoder
}

// next unpacks the next block, or returns io.EOF where the file ends.
func (c *container) next() error {
	if len(c.rest) == 0 {
		return io.EOF
	}
	records, err := c.number()
	if err != nil {
		return err
	}
	packed, err := c.sized()
	if err != nil {
		return err
	}
	mark, err := c.take(markBytes)
	if err != nil {
		return err
	}
	if !bytes.Equal(mark, c.mark) {
		return errors.New("a block does not end where it says")
	}
	if records == 0 {
		return nil // the decoder would skip it
	}
	if err := c.codec.unpack(&c.unpacked, packed); err != nil {
		return noEnd(err)
	}
	block := c.bytes
	if c.form.fixed != nil && records > 0 && records <= int64(len(block)) {
		if block, err = c.withoutLengths(block, records); err != nil {
			return err
		}
	}
	n := len(block)
	if records < 0 || records > int64(n)+zeroRecords {
		return fmt.Errorf("a block of %d bytes claims %d records", n, records)
	}
	if n > mostBlock {
		return fault.New(fault.Invalid, "%s of table %s has a block of %d bytes; this version reads blocks of up to %d",
			c.what, c.table, n, mostBlock).In(c.table, c.location).WithRemedy("rewrite the table's manifests")
	}
	// The decoder makes a copy of the block before it decodes it.
	if err := c.charge(c.form.record*records + c.perByte*int64(n) + int64(max(0, n-c.largest))); err != nil {
		return err
	}
	c.largest = max(c.largest, n)
	c.ready = binary.AppendVarint(binary.AppendVarint(c.ready[:0], records), int64(n))
	c.block, c.trail = block, c.mark
	return nil
}

// metadata reads the header's map. Its numbers are looked at before memory is
// allocated for what they announce.
func (c *container) metadata() (map[string][]byte, error) {
	out := map[string][]byte{}
	for {
		entries, err := c.number()
		if err != nil {
			return nil, err
		}
		if entries == 0 {
			return out, nil
		}
		if entries < 0 { // then the length in bytes follows
			if _, err := c.number(); err != nil {
				return nil, err
			}
			entries = -entries
		}
		for ; entries != 0; entries-- {
			if err := c.entry(out); err != nil {
				return nil, err
			}
		}
	}
}

// entry reads an entry of the header's map.
func (c *container) entry(into map[string][]byte) error {
	key, err := c.sized()
	if err != nil {
		return err
	}
	if into[string(key)], err = c.sized(); err != nil {
		return err
	}
	if len(into) > mostEntries {
		return fmt.Errorf("it has more than %d entries", mostEntries)
	}
	return nil
}

// number reads a varint.
func (c *container) number() (int64, error) {
	v, n := binary.Varint(c.rest)
	switch {
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	case n < 0:
		return 0, errors.New("a number has more than 64 bits")
	}
	c.rest = c.rest[n:]
	return v, nil
}

// sized reads bytes with their number before them.
func (c *container) sized() ([]byte, error) {
	n, err := c.number()
	if err != nil {
		return nil, err
	}
	return c.take(n)
}

// take reads n bytes, which stay the file's.
func (c *container) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(c.rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	out := c.rest[:n]
	c.rest = c.rest[n:]
	return out, nil
}

// encodeMetadata writes a header up to its mark.
func encodeMetadata(metadata map[string][]byte) []byte {
	out := binary.AppendVarint([]byte(containerMagic), int64(len(metadata)))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		out = append(binary.AppendVarint(out, int64(len(key))), key...)
		out = append(binary.AppendVarint(out, int64(len(metadata[key]))), metadata[key]...)
	}
	return append(out, 0)
}

// noEnd keeps the end of a block from looking like the end of the file.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
