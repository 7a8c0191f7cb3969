// Command pages decompresses all pages of Parquet files, and does nothing else with them: nothing is
// decoded. A reader of these files costs at least this much, whatever it does with the values.
//
//	go run ./benchmarks/pages FILE...
//
// It decompresses the column chunks of one row group at a time per core, three times, and prints the
// seconds and the CPU seconds of the fastest pass and the bytes of its pages as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"
	"golang.org/x/sync/errgroup"
)

const passes = 3

// cost is what a pass cost.
type cost struct {
	Seconds      float64 `json:"seconds"`
	CPU          float64 `json:"cpu"`          // seconds of user and system time
	Compressed   int64   `json:"compressed"`   // bytes of column chunks
	Decompressed int64   `json:"decompressed"` // bytes of pages
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	if len(files) == 0 {
		return errors.New("no files are named")
	}
	var best cost
	for i := range passes {
		one, err := measure(files)
		if err != nil {
			return err
		}
		if i == 0 || one.CPU < best.CPU {
			best = one
		}
	}
	return json.NewEncoder(os.Stdout).Encode(best)
}

// measure decompresses all files once.
func measure(files []string) (cost, error) {
	var compressed, decompressed atomic.Int64
	begun, before := time.Now(), processTime()
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, name := range files {
		all.Go(func() error {
			in, out, err := decompress(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			compressed.Add(in)
			decompressed.Add(out)
			return nil
		})
	}
	err := all.Wait()
	return cost{time.Since(begun).Seconds(), processTime() - before, compressed.Load(), decompressed.Load()}, err
}

// decompress decompresses the pages of a file. It returns the bytes of its column chunks, and of their pages.
func decompress(name string) (compressed, decompressed int64, err error) {
	f, err := file.OpenParquetFile(name, false)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for g := range f.NumRowGroups() {
		group := f.RowGroup(g)
		for c := range group.NumColumns() {
			chunk, err := group.MetaData().ColumnChunk(c)
			if err != nil {
				return 0, 0, err
			}
			compressed += chunk.TotalCompressedSize()
			n, err := column(group, c)
			if err != nil {
				return 0, 0, err
			}
			decompressed += n
		}
	}
	return compressed, decompressed, nil
}

// column decompresses the pages of one column chunk, and returns their bytes.
func column(group *file.RowGroupReader, c int) (bytes int64, err error) {
	pages, err := group.GetColumnPageReader(c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	for pages.Next() {
		bytes += int64(len(pages.Page().Data()))
	}
	return bytes, pages.Err()
}

// processTime returns the CPU seconds of this process so far.
func processTime() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
