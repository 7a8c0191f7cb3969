package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Options configure a Spool.
type Options struct {
	Folder string           // the folder, created if its parent exists; "": the system's temporary folder
	Limit  int64            // maximum bytes of all files; 0 or less: no limit, but a part of the disk stays free
	Memory memory.Allocator // allocates the batches that are read; nil: the Go heap
}

// Stats is the disk usage of a Spool in bytes.
type Stats struct {
	Used    int64
	Peak    int64 // maximum of Used
	Written int64 // total bytes written so far
	Files   int   // number of open files
}

// Spool creates files in a folder on local disk. It is safe for concurrent use. It holds no
// resources itself, so it has no method Close.
type Spool struct {
	folder string
	limit  int64
	mem    memory.Allocator
	// unlink unlinks an open file. It fails on systems that cannot unlink an open file.
	unlink func(path string) error
	// space returns the number of free bytes of the folder's disk, and the disk's size. It returns
	// zeros if these are not known.
	space func(folder string) (free, size int64)

	mu    sync.Mutex
	stats Stats
}

// pattern is the pattern from which os.CreateTemp makes the names of files. Most files lose their
// names at once. named matches these names.
const pattern = "penstock-*.spool"

var named = regexp.MustCompile(`^penstock-[0-9]+\.spool$`)

// Open makes a Spool. It removes files that killed processes have left in the folder, but not
// those of running processes.
func Open(o Options) (*Spool, error) {
	s := &Spool{folder: o.Folder, limit: o.Limit, mem: o.Memory, unlink: os.Remove, space: diskSpace}
	if s.folder == "" {
		s.folder = os.TempDir()
	}
	if s.mem == nil {
		s.mem = batch.Default()
	}
	if err := s.create(); err != nil {
		return nil, err
	}
	s.sweep()
	return s, nil
}

// sweep removes files and folders that killed processes have left. Errors are ignored: Try and Create fail if
// the folder cannot be used.
func (s *Spool) sweep() {
	found, _ := os.ReadDir(s.folder) // if there is an error, found has the names that were read before
	for _, f := range found {
		path := filepath.Join(s.folder, f.Name())
		if f.Type().IsRegular() && named.MatchString(f.Name()) {
			sweepFile(path)
		}
		if f.IsDir() && folderName.MatchString(f.Name()) && sweepFile(filepath.Join(path, lockFile)) {
			_ = os.RemoveAll(path) // if this fails, the next Open finds no lock file, and keeps the folder
		}
	}
}

// create creates the folder, but not its parents. Otherwise the spool of a mistyped path would fill
// the disk of the first parent that exists.
func (s *Spool) create() error {
	const private = 0o700
	err := os.Mkdir(s.folder, private)
	switch at, missing := os.Stat(s.folder); {
	case missing == nil && at.IsDir():
		return nil
	case missing == nil:
		return fault.New(fault.Invalid, "spool: %s is not a folder", s.folder).WithRemedy("name a folder with the setting spool")
	case errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(filepath.Clean(s.folder))):
		return fault.New(fault.Invalid, "spool: the folder %s cannot be created: its parent folder exists, but is not on a disk, as /proc", s.folder).
			WithRemedy("name a folder on a local disk with the setting spool")
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "spool: the folder %s does not exist, and neither does its parent folder", s.folder).
			WithRemedy("correct the setting spool, or create %s", filepath.Dir(filepath.Clean(s.folder)))
	}
	return s.broken("create the folder", err)
}

// exists reports whether a path can be followed to a file or a folder.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Try writes a few rows to a file and reads them back, to check that the folder can be used.
func (s *Spool) Try() error {
	f, err := s.Create("a trial")
	if err != nil {
		return fault.Op(err, "try the spool")
	}
	defer f.Release()
	rows := trial()
	defer rows.Release()
	number, err := f.Append(rows)
	if err != nil {
		return fault.Op(err, "try the spool")
	}
	read, err := f.Read(number)
	if err != nil {
		return fault.Op(err, "try the spool")
	}
	read.Release()
	return nil
}

// trial returns a few rows.
func trial() arrow.RecordBatch {
	const rows = 1 << 10
	b := array.NewInt64Builder(batch.Default())
	defer b.Release()
	for row := range int64(rows) {
		b.Append(row)
	}
	column := b.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "row", Type: column.DataType()}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{column}, rows)
}

// Folder returns the folder.
func (s *Spool) Folder() string { return s.folder }

// Stats returns the disk usage.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// If the spool has no limit, 1/freeShare of the disk stays free, but at most maxFree bytes.
const (
	freeShare = 10
	maxFree   = 10 << 30
)

// reserve counts n bytes that are about to be written, or fails with Exhausted.
func (s *Spool) reserve(what string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && s.stats.Used+n > s.limit {
		return fault.New(fault.Exhausted, "%s needs %d bytes more on local disk, %d of the %d that %s may hold are in use",
			what, n, s.stats.Used, s.limit, s.folder).
			WithRemedy("raise the limit of the spool or the memory budget, ask for fewer columns, or write the staging table with more buckets")
	}
	if s.limit <= 0 {
		free, size := s.space(s.folder)
		if keep := min(size/freeShare, maxFree); size > 0 && free-n < keep {
			return fault.New(fault.Exhausted, "%s needs %d bytes more on local disk, %d are free on the disk of %s, and %d stay free for others",
				what, n, free, s.folder, keep).
				WithRemedy("free space on the disk, name another folder with the setting spool, or set spool_limit, which replaces this limit")
		}
	}
	s.stats.Used += n
	s.stats.Written += n
	s.stats.Peak = max(s.stats.Peak, s.stats.Used)
	return nil
}

// release subtracts n bytes and a file from the counts.
func (s *Spool) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Used -= n
	s.stats.Files--
}

// broken returns the error for a failed access to the disk.
func (s *Spool) broken(doing string, err error) error {
	return fault.New(fault.Unavailable, "%s %s for rows that do not fit in memory: %w", doing, s.folder, err).
		WithRemedy("make sure that Penstock can write to %s and that its disk has room, or name another folder with the setting spool", s.folder)
}
