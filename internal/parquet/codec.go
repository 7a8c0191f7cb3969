package parquet

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// bounded is a codec of the library whose output stops at the room that it is
// given, which is what a page's header declares. What a page holds may declare
// anything else: the library's codecs make room for what a frame of Zstandard or
// a block of Snappy says of itself, and take no room for any room.
type bounded struct {
	compress.Codec
	decode func(dst, src []byte) ([]byte, error)
}

// DecodeWithError decodes src into dst, and fails where it does not fit.
func (b bounded) DecodeWithError(dst, src []byte) ([]byte, error) {
	if dst == nil {
		dst = []byte{}
	}
	return b.decode(dst, src)
}

// Decode is DecodeWithError for those who take no errors.
func (b bounded) Decode(dst, src []byte) []byte {
	out, err := b.DecodeWithError(dst, src)
	if err != nil {
		panic(err) //nolint:forbidigo // as the library's interface has it
	}
	return out
}

// The library knows one codec for each name, in one table of the process: it is
// changed before anything can read a page.
func init() { //nolint:gochecknoinits // the table is not guarded, so no later time is safe
	for name, decode := range map[compress.Compression]func(codec compress.Codec) func(dst, src []byte) ([]byte, error){
		compress.Codecs.Zstd:   boundedZstd,
		compress.Codecs.Snappy: boundedSnappy,
		compress.Codecs.Gzip:   boundedAlready,
		compress.Codecs.Brotli: boundedBrotli,
		compress.Codecs.Lz4Raw: boundedAlready,
	} {
		if codec, err := compress.GetCodec(name); err == nil {
			compress.RegisterCodec(name, bounded{Codec: codec, decode: decode(codec)})
		}
	}
	if codec, err := compress.GetCodec(compress.Codecs.Lz4Raw); err == nil {
		compress.RegisterCodec(compress.Codecs.Lz4, hadoopLZ4{codec})
	}
}

// knownCodec says whether pages of a codec can be read.
func knownCodec(name compress.Compression) bool {
	_, err := compress.GetCodec(name)
	return err == nil
}

// boundedZstd decodes with a decoder that never makes room by itself.
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

// boundedSnappy looks at the length that a block begins with.
func boundedSnappy(codec compress.Codec) func(dst, src []byte) ([]byte, error) {
	return func(dst, src []byte) ([]byte, error) {
		if length, n := binary.Uvarint(src); n <= 0 || length > uint64(len(dst)) {
			return nil, fmt.Errorf("a block of Snappy declares %d bytes, its page %d", length, len(dst))
		}
		return compress.Decode(codec, dst, src)
	}
}

// boundedBrotli lends a byte of room where a page is empty: without any, the library
// does not come to the end of what it reads.
func boundedBrotli(codec compress.Codec) func(dst, src []byte) ([]byte, error) {
	decode := boundedAlready(codec)
	return func(dst, src []byte) ([]byte, error) {
		if len(dst) > 0 {
			return decode(dst, src)
		}
		out, err := decode(make([]byte, 1), src)
		if err == nil && len(out) > 0 {
			err = errPageSize
		}
		return out, err
	}
}

// boundedAlready is for codecs that write into the room that is there, if there
// is any: a slice that is not nil.
func boundedAlready(codec compress.Codec) func(dst, src []byte) ([]byte, error) {
	return func(dst, src []byte) ([]byte, error) { return compress.Decode(codec, dst, src) }
}
