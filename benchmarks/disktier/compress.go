package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"golang.org/x/sys/unix"
)

// compress compresses a chunk's file in memory and back, at the fastest levels.
func (c *chunk) compress(pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(paths[len(paths)-1])
	if err != nil {
		return err
	}
	for name, kind := range map[string]compress.Compression{"zstd": compress.Codecs.Zstd, "lz4": compress.Codecs.Lz4Raw} {
		codec, err := compress.GetCodec(kind)
		if err != nil {
			return err
		}
		into, back := make([]byte, codec.CompressBound(int64(len(content)))), make([]byte, len(content))
		cpu, wall := cpuSeconds(), time.Now()
		small := codec.EncodeLevel(into, content, 1)
		c.phases[name], c.stored[name] = append(c.phases[name], since(cpu, wall)), int64(len(small))
		cpu, wall = cpuSeconds(), time.Now()
		codec.Decode(back, small)
		c.phases["un"+name] = append(c.phases["un"+name], since(cpu, wall))
	}
	return nil
}

// dropPages drops a file's pages from the page cache.
func dropPages(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
