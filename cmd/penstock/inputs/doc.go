// Package inputs finds and reads files for the command penstock stage, which writes the rows of the
// files to a table.
//
// The user names files. A name is the path of a local file or folder, a file:// URI, a location on
// remote storage, or "-" for standard input. A path, URI or location with *, ? or [ is a pattern.
// Files are in Parquet, CSV, JSON lines or Arrow IPC format. Find resolves names to files. Open
// returns one reader of the rows of all files, which must have the same columns. Errors name the
// file, and no row is skipped silently.
package inputs

import (
	"bufio"
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/store"
)

// Options configure Find and Open.
type Options struct {
	// Remote returns the store of a location on remote storage. Folders and patterns are supported
	// only if the store is a store.FolderLister.
	Remote func(ctx context.Context, location string) (store.Store, error)
	// Budget is the memory budget from which readers reserve memory; nil means no limit.
	Budget *budget.Budget
	// Threads is how many parts of local Parquet files are read at the same time.
	Threads int
	// Types returns the known columns with their types. Columns of CSV files, of JSON lines and of
	// folder names get these types. Types may be nil. It is called only if there are such columns.
	Types func(ctx context.Context) ([]arrow.Field, error)
	// Stdin is the standard input, which is read for the name "-". StdinFormat is its format:
	// "arrow" (the default), "csv" or "jsonl".
	Stdin       *bufio.Reader
	StdinFormat string
	// NoFolderColumns is true if values in the names of folders, such as day=2026-01-01, are not
	// read as columns.
	NoFolderColumns bool
	// Opened is called after a Parquet file was opened, with the number of rows of the file and the
	// number of files that are not open yet. It may be nil.
	Opened func(rows int64, left int)
}

// File is a file that is to be read.
type File struct {
	// Name is the path or the location of the file.
	Name string
	// Size is the length in bytes, or store.SizeUnknown.
	Size int64

	stdin bool // whether the file is standard input, with stdinName as its name
}

// stdinName is the name of standard input in errors. On the command line, its name is "-".
const stdinName = "standard input"

// remote reports whether the file is on remote storage.
func (f File) remote() bool { return isRemote(f.Name) }

// isRemote reports whether a name is a location on remote storage.
func isRemote(name string) bool {
	scheme := store.Scheme(name)
	return len(scheme) > 1 && scheme != "file" && hasSlashes(name[len(scheme):])
}

func hasSlashes(rest string) bool { return len(rest) > 2 && rest[:3] == "://" }
