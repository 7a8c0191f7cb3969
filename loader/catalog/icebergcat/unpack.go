package icebergcat

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock/penstock/internal/fault"
)

// leastBuffer is the first size of a buffer for what is unpacked, in bytes.
const leastBuffer = 64 << 10

// mostWindow bounds what a zstd frame may ask its decoder to look back on, in
// bytes. Writers ask for 8 MiB at the most, save with settings for archives.
const mostWindow = 64 << 20

// unpacked is a buffer that grows as it is charged. Its zero value is empty.
type unpacked struct {
	allowance
	bytes []byte
	total int64 // unpacked so far, with what was there before
}

// room returns the free part of the buffer behind the bytes in use, and makes the
// buffer larger if there is none.
func (u *unpacked) room(used int) ([]byte, error) {
	if used < cap(u.bytes) {
		return u.bytes[used:cap(u.bytes)], nil
	}
	size := max(leastBuffer, 2*cap(u.bytes))
	if err := u.charge(int64(size)); err != nil {
		return nil, err
	}
	larger := make([]byte, size)
	copy(larger, u.bytes[:used])
	u.held.Shrink(int64(cap(u.bytes)))
	u.bytes = larger
	return u.bytes[used:], nil
}

// fill reads r to its end into the buffer, over what was there.
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
		if u.total += int64(n); u.total > u.most {
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

// exactly makes the buffer n bytes long, for a form that says so beforehand.
func (u *unpacked) exactly(n int64) error {
	if u.total += n; u.total > u.most {
		return u.overflows()
	}
	if more := n - int64(cap(u.bytes)); more > 0 {
		if err := u.charge(more); err != nil {
			return err
		}
		u.bytes = slices.Grow(u.bytes[:0], int(n))
	}
	u.bytes = u.bytes[:n]
	return nil
}

// codec unpacks the blocks of an Avro file, one after another.
type codec interface {
	// unpack reads one block into the buffer, over what was there.
	unpack(into *unpacked, block []byte) error
	close()
}

// codecOf returns the codec of a name as Avro files have it. The caller closes it.
func (a allowance) codecOf(name string) (codec, error) {
	switch name {
	case "", "null":
		return stored{}, nil
	case "deflate":
		return &deflated{flate.NewReader(bytes.NewReader(nil))}, nil
	case "snappy":
		return snapped{}, nil
	case "zstandard":
		decoder, err := newZstd(nil)
		if err != nil {
			return nil, err
		}
		return zstandard{decoder}, nil
	case "bzip2", "xz":
		return nil, fault.New(fault.Invalid, "%s %s of table %s is packed with codec %s, which is not served by this version",
			a.what, a.location, a.table, name).In(a.table, a.location).
			WithRemedy("rewrite the table's manifests with one of the codecs null, deflate, snappy and zstandard")
	default:
		return nil, fmt.Errorf("codec %q is none of Avro's", name)
	}
}

// stored blocks are not packed. They need no buffer.
type stored struct{}

func (stored) unpack(into *unpacked, block []byte) error {
	into.bytes = block
	if into.total += int64(len(block)); into.total > into.most {
		return into.overflows()
	}
	return nil
}

func (stored) close() {}

type deflated struct{ reader io.ReadCloser }

func (d *deflated) unpack(into *unpacked, block []byte) error {
	if err := d.reader.(flate.Resetter).Reset(bytes.NewReader(block), nil); err != nil { //nolint:forcetypeassert // compress/flate promises it
		return err
	}
	return into.fill(d.reader)
}

func (d *deflated) close() { _ = d.reader.Close() }

// snapped blocks end with a checksum of what they unpack to.
type snapped struct{}

func (snapped) unpack(into *unpacked, block []byte) error {
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
		return errors.New("the checksum of a block does not fit")
	}
	return nil
}

func (snapped) close() {}

type zstandard struct{ decoder *zstd.Decoder }

func (z zstandard) unpack(into *unpacked, block []byte) error {
	if err := z.decoder.Reset(bytes.NewReader(block)); err != nil {
		return err
	}
	return into.fill(z.decoder)
}

func (z zstandard) close() { z.decoder.Close() }

// newZstd makes a decoder that works where it is read, and starts nothing.
func newZstd(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
}

// packing is how a metadata file is packed.
type packing int

const (
	packedNot packing = iota
	packedGzip
	packedZstd
)

// packingOf is what a metadata file's name says of its packing, in either form that
// writers have for it.
func packingOf(location string) packing {
	for of, name := range map[packing]string{packedNot: "", packedGzip: "gz", packedZstd: "zstd"} {
		if name != "" && (strings.HasSuffix(location, "."+name+".metadata.json") || strings.HasSuffix(location, "metadata.json."+name)) {
			return of
		}
	}
	return packedNot
}

// text returns metadata.json as text.
func (a allowance) text(content []byte) ([]byte, error) {
	u := unpacked{allowance: a}
	switch packingOf(a.location) {
	case packedGzip:
		reader, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		err = u.fill(reader)
		return u.bytes, err
	case packedZstd:
		reader, err := newZstd(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		err = u.fill(reader)
		return u.bytes, err
	case packedNot:
	}
	return content, nil
}
