package page

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// boundedCodec wraps a codec of the library so that its output never exceeds dst, which has the
// size that the page header declares. The data itself may declare any size: the library's codecs
// allocate whatever a Zstandard frame or a Snappy block declares, and treat a nil dst as unlimited.
type boundedCodec struct {
	compress.Codec
	decode func(dst, src []byte) ([]byte, error)
}

// DecodeWithError decodes src into dst. It fails if the output does not fit.
func (b boundedCodec) DecodeWithError(dst, src []byte) ([]byte, error) {
	if dst == nil {
		dst = []byte{}
	}
	return b.decode(dst, src)
}

// Decode is DecodeWithError, but panics on an error.
func (b boundedCodec) Decode(dst, src []byte) []byte {
	out, err := b.DecodeWithError(dst, src)
	if err != nil {
		panic(err) //nolint:forbidigo // required by the library's interface
	}
	return out
}

// The library has one global codec table without a lock, so init changes it before anything can
// read a page.
func init() { //nolint:gochecknoinits // the library's table has no lock, so no later time is safe
	for name, decode := range map[compress.Compression]func(codec compress.Codec) func(dst, src []byte) ([]byte, error){
		compress.Codecs.Zstd:   boundedZstd,
		compress.Codecs.Snappy: boundedSnappy,
		compress.Codecs.Gzip:   boundedAsIs,
		compress.Codecs.Brotli: boundedBrotli,
		compress.Codecs.Lz4Raw: boundedAsIs,
	} {
		if codec, err := compress.GetCodec(name); err == nil {
			compress.RegisterCodec(name, boundedCodec{Codec: codec, decode: decode(codec)})
		}
	}
	if codec, err := compress.GetCodec(compress.Codecs.Lz4Raw); err == nil {
		compress.RegisterCodec(compress.Codecs.Lz4, hadoopLZ4{codec})
	}
}

// KnownCodec reports whether pages of a codec can be read.
func KnownCodec(name compress.Compression) bool {
	_, err := compress.GetCodec(name)
	return err == nil
}

// boundedZstd decodes with a decoder that never grows dst.
func boundedZstd(compress.Codec) func(dst, src []byte) ([]byte, error) {
	decoder := sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	})
	return func(dst, src []byte) ([]byte, error) {
		d, err := decoder()
		if err != nil {
			return nil, err
		}
		return d.DecodeAll(src, dst[:0])
	}
}

// boundedSnappy checks the length that a block declares at its front.
func boundedSnappy(codec compress.Codec) func(dst, src []byte) ([]byte, error) {
	return func(dst, src []byte) ([]byte, error) {
		if length, n := binary.Uvarint(src); n <= 0 || length > uint64(len(dst)) {
			return nil, fmt.Errorf("a Snappy block declares %d bytes, its page header %d", length, len(dst))
		}
		return compress.Decode(codec, dst, src)
	}
}

// boundedBrotli decodes empty pages into one byte: the library does not reach the end of
// its input when dst is empty.
func boundedBrotli(codec compress.Codec) func(dst, src []byte) ([]byte, error) {
	decode := boundedAsIs(codec)
	return func(dst, src []byte) ([]byte, error) {
		if len(dst) > 0 {
			return decode(dst, src)
		}
		out, err := decode(make([]byte, 1), src)
		if err == nil && len(out) > 0 {
			err = ErrSize
		}
		return out, err
	}
}

// boundedAsIs is for codecs whose output never exceeds dst unless dst is nil.
func boundedAsIs(codec compress.Codec) func(dst, src []byte) ([]byte, error) {
	return func(dst, src []byte) ([]byte, error) { return compress.Decode(codec, dst, src) }
}
