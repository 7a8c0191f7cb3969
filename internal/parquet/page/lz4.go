package page

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/parquet/compress"
)

// hadoopLZ4 is the format's deprecated codec LZ4: LZ4 blocks in Hadoop's framing, as
// written by parquet-mr, or a single unframed block, as written by early C++ writers. The
// library supports neither.
type hadoopLZ4 struct{ block compress.Codec }

const (
	// frameHead is the size of two numbers: the one before a frame, which is the decompressed size
	// of its blocks, and the one before a block, which is its compressed size.
	frameHead = 4
	// frameBytes is the decompressed size of the frames that Encode writes, the same as in Hadoop.
	frameBytes = 256 << 10
)

var errLZ4 = errors.New("LZ4 blocks do not decompress to the size that their page header declares")

// DecodeWithError decodes src. The output must fill dst.
func (c hadoopLZ4) DecodeWithError(dst, src []byte) ([]byte, error) {
	if c.frames(dst, src) {
		return dst, nil
	}
	out, err := compress.Decode(c.block, dst, src)
	if err != nil || len(out) != len(dst) {
		return nil, errLZ4
	}
	return out, nil
}

// frames decodes frames, which may have any number of blocks. It reports whether src consists of
// frames whose output fills dst exactly.
func (c hadoopLZ4) frames(dst, src []byte) bool {
	for len(src) > 0 {
		plain, ok := frameNumber(&src, len(dst))
		if !ok {
			return false
		}
		for frame := dst[:plain]; len(frame) > 0; {
			stored, ok := frameNumber(&src, len(src)-frameHead)
			if !ok || stored == 0 {
				return false
			}
			out, err := compress.Decode(c.block, frame, src[:stored])
			if err != nil || len(out) == 0 {
				return false
			}
			frame, src = frame[len(out):], src[stored:]
		}
		dst = dst[plain:]
	}
	return len(dst) == 0
}

// frameNumber reads one of the numbers of frameHead bytes. It returns false if the number exceeds
// limit.
func frameNumber(src *[]byte, limit int) (int, bool) {
	if len(*src) < frameHead {
		return 0, false
	}
	v := binary.BigEndian.Uint32(*src)
	*src = (*src)[frameHead:]
	return int(v), int64(v) <= int64(limit)
}

// Decode is DecodeWithError, but panics on an error.
func (c hadoopLZ4) Decode(dst, src []byte) []byte {
	out, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err) //nolint:forbidigo // required by the library's interface
	}
	return out
}

// Encode writes frames of one block each.
func (c hadoopLZ4) Encode(dst, src []byte) []byte {
	dst = dst[:0]
	for len(src) > 0 {
		n := min(len(src), frameBytes)
		block := c.block.Encode(nil, src[:n])
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst, src = append(dst, block...), src[n:]
	}
	return dst
}

// EncodeLevel does the same as Encode, since the codec has no compression levels.
func (c hadoopLZ4) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }

// CompressBound returns the maximum compressed size of n bytes.
func (c hadoopLZ4) CompressBound(n int64) int64 {
	frames := n/frameBytes + 1
	return frames * (2*frameHead + c.block.CompressBound(min(n, frameBytes)))
}
