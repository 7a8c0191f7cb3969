package metafile

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window that a Zstandard frame may require, in bytes. Writers use at most
// 8 MiB, except with settings that are meant for archives.
const maxWindow = 64 << 20

// zstdWindow returns the number of bytes that a decoder allocates for the largest window of the
// given frames. It returns an error if a window is larger than maxWindow; the decoder refuses such
// windows too.
func zstdWindow(frames []byte) (int64, error) {
	const beside = 1 << 20 // the decoder allocates as much again, but at most this much
	largest := uint64(0)
	for len(frames) > 0 {
		var h zstd.Header
		if err := h.Decode(frames); err != nil {
			return 0, noEnd(err)
		}
		window, frame := h.WindowSize, int64(h.HeaderSize)+int64(h.SkippableSize)
		if h.SingleSegment {
			window = h.FrameContentSize
		}
		if largest = max(largest, window); largest > maxWindow {
			return 0, zstd.ErrWindowSizeExceeded
		}
		if !h.Skippable {
			blocks, err := zstdBlocks(frames[h.HeaderSize:])
			if err != nil {
				return 0, err
			}
			if frame += blocks; h.HasCheckSum {
				const checksumBytes = 4
				frame += checksumBytes
			}
		}
		if frame > int64(len(frames)) {
			return 0, io.ErrUnexpectedEOF
		}
		frames = frames[frame:]
	}
	return int64(largest + min(largest, beside)), nil //nolint:gosec // bounded above
}

// zstdBlocks returns the number of bytes of the blocks at the beginning of text, up to and
// including the last block of the frame.
func zstdBlocks(text []byte) (bytes int64, err error) {
	const headBytes, repeated = 3, 1
	for last := false; !last; {
		if bytes > int64(len(text))-headBytes {
			return 0, io.ErrUnexpectedEOF
		}
		head := int64(text[bytes]) | int64(text[bytes+1])<<8 | int64(text[bytes+2])<<16
		size := head >> 3
		if head>>1&3 == repeated { // the block is one byte, which the decoder repeats size times
			size = 1
		}
		last = head&1 == 1
		bytes += headBytes + size
	}
	return bytes, nil
}
