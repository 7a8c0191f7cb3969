package deletes

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// The blob of a deletion vector consists of the length of magic and bitmap together, the magic, the
// bitmap, and a CRC-32 of magic and bitmap. Length and checksum are big-endian.
const (
	vectorMagic  = "\xd1\xd3\x39\x64"
	lengthBytes  = 4
	crcBytes     = 4
	vectorFrame  = lengthBytes + len(vectorMagic) + crcBytes
	perBlobBytes = 24 // maximum memory per stored byte: containers of one value each
	// maxBlob is the maximum size of a blob, whose length field has four bytes.
	maxBlob = math.MaxUint32 + lengthBytes + crcBytes
)

// loadVector loads a deletion vector, with one read.
func (p *Pool) loadVector(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile) (*loaded, error) {
	if d.Length > maxBlob {
		return nil, outside(d, "it can have %d bytes at most", int64(maxBlob))
	}
	held, err := p.options.Budget.ReserveFor(ctx, "the deletion vector of "+d.Data, (1+perBlobBytes)*d.Length)
	if err != nil {
		return nil, err
	}
	blob, err := p.blob(ctx, t, d, held)
	if err != nil {
		held.Release()
		return nil, err
	}
	defer blob.Release()
	set, err := decodeVector(blob.Bytes())
	if err == nil && set.count() != d.Rows {
		err = fault.New(fault.Corrupt, "it has %d positions, the manifest says %d", set.count(), d.Rows)
	}
	if err != nil {
		held.Release()
		return nil, fault.New(fault.Corrupt, "the deletion vector at byte %d of %s cannot be read: %w", d.Offset, d.Location, err).
			In("", d.Location).WithRemedy("restore the file, or roll the table back to a snapshot before it")
	}
	held.Shrink(max(0, held.Held()-set.bytes()))
	out := newLoaded(held)
	out.positions = positions{d.Data: set}
	return out, nil
}

// blob reads the stored bytes of a vector. Their memory is reserved with held, and releasing the
// buffer shrinks held again. The caller releases the buffer.
func (p *Pool) blob(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile, held *budget.Reservation) (*memory.Buffer, error) {
	object, err := p.options.Files.Open(ctx, t, d.Location, d.Bytes)
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // it was only read
	if d.Offset > object.Size() || d.Length > object.Size()-d.Offset {
		return nil, outside(d, "the file has %d bytes", object.Size())
	}
	content := budget.NewBuffer(make([]byte, d.Length), held.Split(d.Length))
	if err := object.ReadAt(ctx, content, d.Offset); err != nil {
		content.Release()
		return nil, err
	}
	return content, nil
}

// outside returns the error for a vector that cannot be at the place that the manifest names.
func outside(d *catalog.DeleteFile, format string, args ...any) error {
	return fault.New(fault.Corrupt, "the manifest has a deletion vector of %d bytes at byte %d of %s, but %s", d.Length, d.Offset, d.Location, fmt.Sprintf(format, args...)).
		In("", d.Location).WithRemedy("restore the file, or roll the table back to a snapshot before it")
}

// decodeVector checks a blob, and returns its positions.
func decodeVector(blob []byte) (*bitmap, error) {
	if len(blob) < vectorFrame {
		return nil, fault.New(fault.Corrupt, "it has %d bytes", len(blob))
	}
	if n := binary.BigEndian.Uint32(blob); int64(n) != int64(len(blob)-lengthBytes-crcBytes) {
		return nil, fault.New(fault.Corrupt, "its length field is %d", n)
	}
	body, crc := blob[lengthBytes:len(blob)-crcBytes], binary.BigEndian.Uint32(blob[len(blob)-crcBytes:])
	if !bytes.HasPrefix(body, []byte(vectorMagic)) {
		return nil, fault.New(fault.Corrupt, "its magic bytes are wrong")
	}
	if got := crc32.ChecksumIEEE(body); got != crc {
		return nil, fault.New(fault.Corrupt, "its checksum is %08x, the stored one is %08x", got, crc)
	}
	return readBitmap(body[len(vectorMagic):])
}
