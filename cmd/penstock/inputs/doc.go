// Package inputs finds the files that a command names, and reads their rows: the rows that penstock stage writes to a table.
//
// A name is a local file or folder, a file:// URI, a location on remote storage, or a pattern with *, ? or [ of one of
// these, or "-" for standard input. Files are in Parquet, CSV or Arrow's IPC format. Find returns the files that names stand for, and Open returns their rows as one reader. All files are read as one
// input: they have the same columns. An error names the file, and no row is left out without an error.
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
	// Remote returns the store of a location that is not local. A store that also is a store.FolderLister lists folders.
	Remote func(ctx context.Context, location string) (store.Store, error)
	// Budget is charged for what is read; nil is unlimited.
	Budget *budget.Budget
	// Threads is the number of parts of local files that are read at the same time.
	Threads int
	// Types returns the types of columns, by name: of CSV files, and of the columns of folders. It may be nil, and is not called
	// unless a file has such columns.
	Types func(ctx context.Context) (map[string]arrow.DataType, error)
	// Stdin is read for the name "-", as an Arrow stream or, with StdinCSV, as CSV.
	Stdin    *bufio.Reader
	StdinCSV bool
	// NoFolderColumns leaves out the columns that the names of folders have, as in day=2026-01-01.
	NoFolderColumns bool
	// Opened is called when a file was opened, with its rows and the number of files that are not open yet; nil: it is not called.
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

// stdinName is standard input in errors. The command line names it "-".
const stdinName = "standard input"

// remote reports whether the file is on remote storage.
func (f File) remote() bool { return isRemote(f.Name) }

// isRemote reports whether a name is a location on remote storage.
func isRemote(name string) bool {
	scheme := store.Scheme(name)
	return len(scheme) > 1 && scheme != "file" && hasSlashes(name[len(scheme):])
}

func hasSlashes(rest string) bool { return len(rest) > 2 && rest[:3] == "://" }
