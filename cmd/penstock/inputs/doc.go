// Package inputs finds and reads the files whose rows penstock stage writes to a table.
//
// A name is a local file or folder, a file:// URI, a location on remote storage, a pattern of these
// with *, ? or [, or "-" for standard input. Files are in Parquet, CSV, JSON lines or Arrow IPC format. Find
// resolves names to files, and Open returns the rows of all files as one reader; the files must
// have the same columns. Errors name the file, and no row is skipped silently.
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
	// Remote returns the store of a location that is not local. Folders can be listed only if the
	// store is a store.FolderLister.
	Remote func(ctx context.Context, location string) (store.Store, error)
	// Budget is charged for the memory of reading; nil is unlimited.
	Budget *budget.Budget
	// Threads is the number of parts of local files that are read concurrently.
	Threads int
	// Types returns the types of the columns of CSV files, of JSON lines and of folder names. It may
	// be nil. It is called only if there are such columns.
	Types func(ctx context.Context) ([]arrow.Field, error)
	// Stdin is read for the name "-", in the format StdinFormat: "arrow", the default, "csv" or
	// "jsonl".
	Stdin       *bufio.Reader
	StdinFormat string
	// NoFolderColumns ignores columns in the names of folders, such as day=2026-01-01.
	NoFolderColumns bool
	// Opened, unless nil, is called after a Parquet file is opened, with its number of rows and the
	// number of files that are not open yet.
	Opened func(rows int64, left int)
}

// File is a file to read.
type File struct {
	// Name is the path or the location of the file.
	Name string
	// Size is the length in bytes, or store.SizeUnknown.
	Size int64

	stdin bool // standard input; the name is stdinName
}

// stdinName is the name of standard input in errors. On the command line, it is "-".
const stdinName = "standard input"

// remote reports whether the file is on remote storage.
func (f File) remote() bool { return isRemote(f.Name) }

// isRemote reports whether a name is a location on remote storage.
func isRemote(name string) bool {
	scheme := store.Scheme(name)
	return len(scheme) > 1 && scheme != "file" && hasSlashes(name[len(scheme):])
}

func hasSlashes(rest string) bool { return len(rest) > 2 && rest[:3] == "://" }
