package rowsin

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/penstock/penstock/internal/fault"
)

// This file decompresses the compressed buffers of clients into memory of exactly the sizes that
// were reserved. The Arrow library would allocate whatever sizes and windows a client claims.
const (
	lengthPrefix = 8  // bytes before a compressed buffer, which contain its decompressed length
	asItIs       = -1 // the value in place of this length if the buffer is not compressed
	bufferAlign  = 8
	// zstdMemory is the memory of a zstd decoder besides its output: its tables, and one block.
	zstdMemory = 1 << 20
	zstdBlock  = 128 << 10
	// lz4Memory is the memory of an LZ4 decoder besides its output, in multiples of the frame's
	// largest block. The decoder holds one block, the same block compressed, and two blocks of
	// earlier output that later blocks may refer to.
	lz4Memory     = 4
	lz4Magic      = 0x184D2204
	lz4HeaderSize = 7
)

// unpacked returns the size of the decompressed body, and the memory that a decoder needs in
// addition.
func (m *message) unpacked(h *batchHeader) (size, beside int64, err error) {
	if h.codec == notCompressed {
		return 0, 0, nil
	}
	for _, b := range h.buffers {
		if b.second == 0 {
			continue
		}
		if b.second < lengthPrefix {
			return 0, 0, badCompression("a compressed buffer has %d bytes", b.second)
		}
		source := m.body[b.first : b.first+b.second]
		n := int64(binary.LittleEndian.Uint64(source)) //nolint:gosec // two's complement
		if n == asItIs {
			size += aligned(b.second - lengthPrefix)
			continue
		}
		if n < 0 || n > maxMessage {
			return 0, 0, tooLargeBatch(maxMessage)
		}
		size += aligned(n)
		takes := zstdMemory + zstdBlock + n/4 // if a frame decompresses to more bytes than it claims, the output grows once
		if h.codec == lz4Frame {
			block, err := lz4Block(source[lengthPrefix:])
			if err != nil {
				return 0, 0, err
			}
			takes = lz4Memory * block
		}
		beside = max(beside, takes)
	}
	return size, beside, nil
}

func aligned(n int64) int64 { return (n + bufferAlign - 1) &^ (bufferAlign - 1) }

func badCompression(format string, values ...any) error {
	return fault.New(fault.Invalid, format, values...).WithRemedy("write the rows with an Arrow library, or without compression")
}

// unpack replaces the compressed body by the decompressed body. size is the result of unpacked.
func (m *message) unpack(h *batchHeader, size int64) error {
	if h.codec == notCompressed {
		return nil
	}
	decode, end, err := decompressor(h.codec)
	if err != nil {
		return err
	}
	defer end()
	body, at := make([]byte, size), int64(0)
	for i, b := range h.buffers {
		if b.second == 0 {
			h.buffers[i] = flatSpan{}
			continue
		}
		source := m.body[b.first+lengthPrefix : b.first+b.second]
		n := int64(binary.LittleEndian.Uint64(m.body[b.first:])) //nolint:gosec // two's complement
		if n == asItIs {
			n = int64(copy(body[at:], source))
		} else if err := decode(body[at:at+n:at+n], source); err != nil {
			return badCompression("a compressed buffer does not have the %d bytes that it claims: %w", n, err)
		}
		h.buffers[i] = flatSpan{at, n}
		at += aligned(n)
	}
	m.body, h.codec = body, notCompressed
	return nil
}

// decompressor returns a function that decompresses a buffer into a target of exactly the
// decompressed size.
func decompressor(codec bodyCodec) (decode func(to, from []byte) error, end func(), err error) {
	if codec == lz4Frame {
		r := lz4.NewReader(nil)
		return func(to, from []byte) error { return readLZ4(r, to, from) }, func() { r.Reset(nil) }, nil
	}
	// Because the size of the output is limited, the decoder does not allocate the window that a
	// frame claims.
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, nil, err
	}
	return func(to, from []byte) error {
		out, err := d.DecodeAll(from, to[:0])
		if err == nil && len(out) != len(to) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}, d.Close, nil
}

// readLZ4 decompresses a buffer that lz4Block has accepted, and returns an error unless the output
// exactly fills to.
func readLZ4(r *lz4.Reader, to, from []byte) error {
	r.Reset(bytes.NewReader(from))
	if _, err := io.ReadFull(r, to); err != nil {
		return err
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 {
		return io.ErrShortBuffer
	} else if err != io.EOF { //nolint:errorlint // the library returns io.EOF unwrapped
		return err
	}
	return nil
}

// lz4Block returns the maximum size of a block of an LZ4 frame. It fails unless the buffer is
// exactly one frame, because the library would also read any frames after the first one, and those
// could have larger blocks.
func lz4Block(frame []byte) (int64, error) {
	if len(frame) < lz4HeaderSize || binary.LittleEndian.Uint32(frame) != lz4Magic {
		return 0, badCompression("a compressed buffer is not an LZ4 frame")
	}
	const (
		hasDictionary, hasChecksum, hasSize, hasBlockChecksum = 1, 4, 8, 16
		notCompressedBlock                                    = 1 << 31
	)
	flags, size := frame[4], frame[5]>>4&7
	if size < 4 || flags&hasDictionary != 0 {
		return 0, badCompression("an LZ4 frame has a form that Arrow does not use")
	}
	block := int64(1) << (8 + 2*size)
	at := int64(lz4HeaderSize)
	if flags&hasSize != 0 {
		at += 8
	}
	for at <= int64(len(frame))-4 {
		n := int64(binary.LittleEndian.Uint32(frame[at:]) &^ notCompressedBlock)
		at += 4
		if n == 0 {
			if flags&hasChecksum != 0 {
				at += 4
			}
			break
		}
		if n > block {
			break
		}
		if at += n; flags&hasBlockChecksum != 0 {
			at += 4
		}
	}
	if at != int64(len(frame)) {
		return 0, badCompression("a compressed buffer is not one whole LZ4 frame")
	}
	return block, nil
}
