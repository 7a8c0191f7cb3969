package parquet

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/parquet/compress"
)

// hadoopLZ4 is the codec that the format calls LZ4, and deprecates: blocks of LZ4 in
// the framing of Hadoop, as parquet-mr has it; or, in files of the first writers in
// C++, one block without any. The library knows neither.
type hadoopLZ4 struct{ block compress.Codec }

const (
	// frameHead is what stands before a frame: how many bytes its blocks unpack to.
	// Before each block is as much: how many bytes it has.
	frameHead = 4
	// frameBytes is how much a writer puts into a frame, as in Hadoop.
	frameBytes = 256 << 10
)

var errLZ4 = errors.New("blocks of LZ4 do not unpack to what their page declares")

// DecodeWithError decodes src, which must fill dst.
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

// frames decodes frames, and says whether src was some, and filled dst. A frame has as
// many blocks as it takes.
func (c hadoopLZ4) frames(dst, src []byte) bool {
	for len(src) > 0 {
		plain, ok := number(&src, len(dst))
		if !ok {
			return false
		}
		for frame := dst[:plain]; len(frame) > 0; {
			stored, ok := number(&src, len(src)-frameHead)
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

// number takes a number of a frame; false if it is above the most that it can be.
func number(src *[]byte, most int) (int, bool) {
	if len(*src) < frameHead {
		return 0, false
	}
	v := binary.BigEndian.Uint32(*src)
	*src = (*src)[frameHead:]
	return int(v), int64(v) <= int64(most)
}

// Decode is DecodeWithError for those who take no errors.
func (c hadoopLZ4) Decode(dst, src []byte) []byte {
	out, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err) //nolint:forbidigo // as the library's interface has it
	}
	return out
}

// Encode makes frames of one block each.
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

// EncodeLevel is Encode: there are no levels.
func (c hadoopLZ4) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }

// CompressBound returns the most bytes that so many become.
func (c hadoopLZ4) CompressBound(n int64) int64 {
	frames := n/frameBytes + 1
	return frames * (2*frameHead + c.block.CompressBound(min(n, frameBytes)))
}
