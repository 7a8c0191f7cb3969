package metafile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock/penstock/internal/fault"
)

// minBuffer is the initial size of a buffer for unpacked bytes.
const minBuffer = 64 << 10

// unpacked is a buffer for unpacked bytes that charges its memory before it grows. Its zero value
// is empty.
type unpacked struct {
	Allowance
	bytes []byte
	total int64 // bytes of all blocks that were unpacked so far
}

// room returns the free part of the buffer after the used bytes. If no part is free, it enlarges
// the buffer.
func (u *unpacked) room(used int) ([]byte, error) {
	if used < cap(u.bytes) {
		return u.bytes[used:cap(u.bytes)], nil
	}
	size := max(minBuffer, 2*cap(u.bytes))
	if err := u.Charge(int64(size)); err != nil {
		return nil, err
	}
	larger := make([]byte, size)
	copy(larger, u.bytes[:used])
	u.Held.Shrink(int64(cap(u.bytes)))
	u.bytes = larger
	return u.bytes[used:], nil
}

// fill replaces the content of the buffer with everything that r returns.
func (u *unpacked) fill(r io.Reader) error {
	u.bytes = u.bytes[:0]
	used := 0
	for {
		into, err := u.room(used)
		if err != nil {
			return err
		}
		n, err := r.Read(into)
		used += n
		if u.total += int64(n); u.total > u.Max {
			return u.overflows()
		}
		if errors.Is(err, io.EOF) {
			u.bytes = u.bytes[:used]
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// exactly makes the buffer n bytes long, for formats that give the length in advance.
func (u *unpacked) exactly(n int64) error {
	if u.total += n; u.total > u.Max {
		return u.overflows()
	}
	if more := n - int64(cap(u.bytes)); more > 0 {
		if err := u.Charge(more); err != nil {
			return err
		}
		u.bytes = slices.Grow(u.bytes[:0], int(n))
	}
	u.bytes = u.bytes[:n]
	return nil
}

// codec unpacks the blocks of an Avro file.
type codec interface {
	// unpack unpacks a block, and replaces the content of the buffer with the result.
	unpack(into *unpacked, block []byte) error
	close()
}

// codecOf returns the codec that an Avro file names. The caller closes it.
func (a Allowance) codecOf(name string) (codec, error) {
	switch name {
	case "", "null":
		return nullCodec{}, nil
	case "deflate":
		return &flateCodec{flate.NewReader(bytes.NewReader(nil))}, nil
	case "snappy":
		return snappyCodec{}, nil
	case "zstandard":
		return newZstd()
	case "bzip2", "xz":
		return nil, fault.New(fault.Invalid, "%s %s of table %s is packed with codec %s, which is not supported by this version",
			a.What, a.Location, a.Table, name).In(a.Table, a.Location).
			WithRemedy("rewrite the table's manifests with one of the codecs null, deflate, snappy and zstandard")
	default:
		return nil, fmt.Errorf("%q is not an Avro codec", name)
	}
}

// nullCodec returns blocks that are not compressed. It does not copy them.
type nullCodec struct{}

func (nullCodec) unpack(into *unpacked, block []byte) error {
	into.bytes = block
	if into.total += int64(len(block)); into.total > into.Max {
		return into.overflows()
	}
	return nil
}

func (nullCodec) close() {}

type flateCodec struct{ reader io.ReadCloser }

func (d *flateCodec) unpack(into *unpacked, block []byte) error {
	if err := d.reader.(flate.Resetter).Reset(bytes.NewReader(block), nil); err != nil { //nolint:forcetypeassert // the documentation of compress/flate promises this
		return err
	}
	return into.fill(d.reader)
}

func (d *flateCodec) close() { _ = d.reader.Close() }

// snappyCodec reads blocks that end with a checksum of their unpacked bytes.
type snappyCodec struct{}

func (snappyCodec) unpack(into *unpacked, block []byte) error {
	if len(block) < crc32.Size {
		return io.ErrUnexpectedEOF
	}
	packed, sum := block[:len(block)-crc32.Size], block[len(block)-crc32.Size:]
	n, err := snappy.DecodedLen(packed)
	if err != nil {
		return err
	}
	if err := into.exactly(int64(n)); err != nil {
		return err
	}
	if into.bytes, err = snappy.Decode(into.bytes, packed); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(into.bytes) != binary.BigEndian.Uint32(sum) {
		return errors.New("the checksum of a block does not match")
	}
	return nil
}

func (snappyCodec) close() {}

type zstdCodec struct {
	decoder *zstd.Decoder
	held    int64 // bytes charged for the decoder's window
}

func (z *zstdCodec) unpack(into *unpacked, block []byte) error {
	window, err := zstdWindow(block)
	if err != nil {
		return err
	}
	if more := window - z.held; more > 0 {
		if err := into.Charge(more); err != nil {
			return err
		}
		z.held = window
	}
	if err := z.decoder.Reset(bytes.NewReader(block)); err != nil {
		return err
	}
	return into.fill(z.decoder)
}

func (z *zstdCodec) close() { z.decoder.Close() }

// newZstd returns a codec that works in the goroutine that calls it.
func newZstd() (*zstdCodec, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &zstdCodec{decoder: decoder}, err
}
