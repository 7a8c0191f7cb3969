package metafile

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

// An Avro object container file begins with "Obj" and a byte 1, a map of metadata, and a sync
// marker of 16 bytes. Blocks follow. Each block has the number of its records, the number of its
// bytes, the records, compressed with the codec that the metadata names, and the sync marker again.
// Numbers are zigzag varints. See "Object Container Files" in the Avro specification, 1.12.
const (
	containerMagic = "Obj\x01"
	codecKey       = "avro.codec"
	avroSchemaKey  = "avro.schema"
	schemaKey      = "schema"  // of the table, as JSON, in a manifest
	contentKey     = "content" // of a manifest: "data" or "deletes"
	markBytes      = 16
	// zeroRecords is the maximum number of records of zero bytes in a block. It is that of
	// iceberg-go's decoder.
	zeroRecords = 4 << 10
	// maxEntries is the maximum number of entries of a file's metadata. Iceberg writes ten.
	maxEntries = 4 << 10
	// maxBlock is the size of the largest unpacked block that iceberg-go's decoder accepts.
	maxBlock = 64 << 20
)

// Container unpacks an Avro file and passes it on to a decoder, because iceberg-go does not limit
// the memory that it uses when it unpacks a file. Before the decoder receives a block, the memory
// for it and for the number of records that it claims to have is charged. A Container is an
// io.Reader. The caller closes it.
type Container struct {
	unpacked
	perByte int64 // charged for each byte of the records
	codec   codec
	Schema  []byte      // of the table when the file was written; nil if unknown
	form    *recordForm // of the records
	shorter []byte      // a buffer for the last block without the lengths before its fixed values
	rest    []byte      // the file from the next block on
	mark    []byte      // the file's sync marker
	largest int         // length of the largest block so far
	// Read returns ready, block and trail, in this order.
	ready, block, trail []byte
	err                 error // the error that ended reading
}

// ReadOptions configures how an Avro file is read.
type ReadOptions struct {
	PerByte int64    // charged for each byte of the records
	Schemas *Schemas // shared by the files of a table
	Content string   // the content type of a manifest, used if its header does not have it; "" for a manifest list
}

// NewContainer reads the header of a file, and returns its Container.
func NewContainer(a Allowance, content []byte, how ReadOptions) (*Container, error) {
	c := &Container{unpacked: unpacked{Allowance: a}, perByte: how.PerByte}
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
	if c.form, err = how.Schemas.of(a, metadata[avroSchemaKey]); err != nil {
		return nil, err
	}
	metadata[avroSchemaKey] = c.form.text
	if how.Content != "" && len(metadata[contentKey]) == 0 {
		// The manifest list says it too. Iceberg's Java library reads it only there, so some
		// writers leave it out of the header.
		metadata[contentKey] = []byte(how.Content)
	}
	// The schema is removed from the header, because the decoder accepts no value of more than 1
	// MiB, and the schema of a few thousand columns is larger.
	c.Schema = metadata[schemaKey]
	delete(metadata, schemaKey)
	c.ready = append(encodeMetadata(metadata), c.mark...)
	return c, nil
}

// Close releases the codec's memory.
func (c *Container) Close() { c.codec.close() }

// Read reads the next bytes of the unpacked file.
func (c *Container) Read(p []byte) (int, error) {
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

// Failure returns the reason why the decoder failed: the error of Read if there was one other than
// io.EOF, and else the decoder's own error.
func (c *Container) Failure(decoder error) error {
	if c.err != nil && !errors.Is(c.err, io.EOF) {
		return c.err
	}
	return decoder
}

// next unpacks the next block. It returns io.EOF at the end of the file.
func (c *Container) next() error {
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
		return errors.New("a block does not end where its length says")
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
	if n > maxBlock {
		return fault.New(fault.Invalid, "%s of table %s has a block of %d bytes; this version reads blocks of up to %d",
			c.What, c.Table, n, maxBlock).In(c.Table, c.Location).WithRemedy("rewrite the table's manifests")
	}
	// The decoder copies the block before it decodes it.
	if err := c.Charge(c.form.record*records + c.perByte*int64(n) + int64(max(0, n-c.largest))); err != nil {
		return err
	}
	c.largest = max(c.largest, n)
	c.ready = binary.AppendVarint(binary.AppendVarint(c.ready[:0], records), int64(n))
	c.block, c.trail = block, c.mark
	return nil
}

// metadata reads the header's map. It checks the numbers in it before it allocates
// memory for them.
func (c *Container) metadata() (map[string][]byte, error) {
	out := map[string][]byte{}
	for {
		entries, err := c.number()
		if err != nil {
			return nil, err
		}
		if entries == 0 {
			return out, nil
		}
		if entries < 0 { // the length of the block in bytes follows
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
func (c *Container) entry(into map[string][]byte) error {
	key, err := c.sized()
	if err != nil {
		return err
	}
	if into[string(key)], err = c.sized(); err != nil {
		return err
	}
	if len(into) > maxEntries {
		return fmt.Errorf("it has more than %d entries", maxEntries)
	}
	return nil
}

// number reads a varint.
func (c *Container) number() (int64, error) {
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

// sized reads bytes that are preceded by their number.
func (c *Container) sized() ([]byte, error) {
	n, err := c.number()
	if err != nil {
		return nil, err
	}
	return c.take(n)
}

// take returns the next n bytes of the file, without copying them.
func (c *Container) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(c.rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	out := c.rest[:n]
	c.rest = c.rest[n:]
	return out, nil
}

// encodeMetadata writes a header up to its sync marker.
func encodeMetadata(metadata map[string][]byte) []byte {
	out := binary.AppendVarint([]byte(containerMagic), int64(len(metadata)))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		out = append(binary.AppendVarint(out, int64(len(key))), key...)
		out = append(binary.AppendVarint(out, int64(len(metadata[key]))), metadata[key]...)
	}
	return append(out, 0)
}

// noEnd replaces io.EOF with another error, so that the end of a block is not mistaken for the end
// of the file.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
