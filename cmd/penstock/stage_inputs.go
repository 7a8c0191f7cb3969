package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"runtime"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/loader/datafile"
)

// fileFlags say which files to read, and how.
type fileFlags struct {
	files           []string
	stdin           io.Reader
	stdinFormat     *string
	schema          *string // the types of columns, as inputs.ParseTypes reads them
	noFolderColumns bool
}

// inputFlags adds the flags.
func (s *fileFlags) inputFlags(c *cobra.Command, stdin io.Reader) {
	s.stdin = stdin
	s.stdinFormat = cmdline.Text(c, "input-format", "arrow|csv", "the format of standard input, which is read for the FILE - (default: arrow)")
	s.schema = cmdline.Text(c, "schema", "TYPES", "the types of columns of CSV files and of folders, as in 'id: long, price: decimal(9,2)' (default: the table's)")
	c.Flags().BoolVar(&s.noFolderColumns, "no-folder-columns", false, "do not read columns from the names of folders such as day=2026-01-01")
}

// rows returns the rows of the files. The caller releases them. The types of --schema replace those of o.
func (s *fileFlags) rows(ctx context.Context, o inputs.Options) (array.RecordReader, error) {
	given, err := inputs.ParseTypes(*s.schema)
	if err != nil {
		return nil, err
	}
	if f := *s.stdinFormat; f != "" && f != "arrow" && f != "csv" {
		return nil, cmdline.Errorf("--input-format %s: want arrow or csv", f)
	}
	o.Stdin, o.StdinCSV = bufio.NewReader(s.stdin), *s.stdinFormat == "csv"
	o.Threads, o.NoFolderColumns = runtime.GOMAXPROCS(0), s.noFolderColumns
	known := o.Types
	o.Types = func(ctx context.Context) (map[string]arrow.DataType, error) {
		out := map[string]arrow.DataType{}
		if known != nil {
			table, err := known(ctx)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, table)
		}
		maps.Copy(out, given)
		return out, nil
	}
	files, err := inputs.Find(ctx, s.files, o)
	if err != nil {
		return nil, err
	}
	return inputs.Open(ctx, files, o)
}

// inputRows estimates how many rows some files have, from those that were opened. It is safe for concurrent use.
type inputRows struct {
	mu     sync.Mutex
	rows   int64 // of the files that were opened
	opened int
	left   int // files that are not open yet
}

// add adds a file that was opened.
func (r *inputRows) add(rows int64, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.opened, r.left = r.rows+rows, r.opened+1, left
}

// all returns the number of rows of all files, as if those that are not open were as large as the others.
func (r *inputRows) all() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows + r.rows*int64(r.left)/int64(max(r.opened, 1))
}

// staging returns a function that reports how far a stage of rows is.
func (g *commandProgress) staging(rows *inputRows) func(changes.Progress) {
	return func(now changes.Progress) {
		now.OfRowsRead = rows.all()
		g.report(now)
	}
}

// stageProgress returns the progress of a stage in this process as a server sends it.
func stageProgress(at datafile.Progress) changes.Progress {
	return changes.Progress{Step: at.Step.String(), ProgressCounts: changes.ProgressCounts{
		RowsRead: at.RowsRead, RowsWritten: at.RowsWritten, OfRowsWritten: at.OfRowsWritten, Files: int64(at.Files), Bytes: at.Bytes,
	}}
}
