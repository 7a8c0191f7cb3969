package metafile

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the window that a Zstandard frame may require, in bytes. Writers use
// at most 8 MiB, except with settings for archives.
const maxWindow = 64 << 20

// zstdWindow returns the bytes that a decoder allocates for the largest window of some frames. The decoder refuses
// windows of more than maxWindow.
func zstdWindow(frames []byte) (int64, error) {
	const beside = 1 << 20 // the decoder takes as much again, and this much at most
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

// zstdBlocks returns the bytes of the blocks at the beginning of a text, up to the last one of their frame.
func zstdBlocks(text []byte) (bytes int64, err error) {
	const headBytes, repeated = 3, 1
	for last := false; !last; {
		if bytes > int64(len(text))-headBytes {
			return 0, io.ErrUnexpectedEOF
		}
		head := int64(text[bytes]) | int64(text[bytes+1])<<8 | int64(text[bytes+2])<<16
		size := head >> 3
		if head>>1&3 == repeated { // one byte, which the block has size times
			size = 1
		}
		last = head&1 == 1
		bytes += headBytes + size
	}
	return bytes, nil
}
