package inputs

import (
	"context"
	"io"
	"os"
	"regexp"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// Parts of files on remote storage that are read at the same time, and bytes of one request: a request takes long, so fewer
// and larger ones are made than on local disks.
const (
	remoteThreads = 8
	remoteBuffer  = 1 << 20
)

// fileRows are the rows of some files, in their order.
type fileRows interface {
	array.RecordReader
	// File returns the number of the file that the current batch is from. A batch is of one file.
	File() int
}

// Open returns the rows of files, in their order. All files have the columns of the first one, in any order, and the columns of
// their folders, unless o leaves them out. The caller releases the reader.
//
// Errors: those of foreign.Open; Invalid for files of several formats, and for CSV files as Options.csv has it.
func Open(ctx context.Context, files []File, o Options) (array.RecordReader, error) {
	folders := &folderColumns{}
	if !o.NoFolderColumns {
		var err error
		if folders, err = o.folderColumns(ctx, files); err != nil {
			return nil, err
		}
	}
	rows, err := o.open(ctx, files)
	if err != nil {
		return nil, err
	}
	return folders.with(ctx, rows, files, o.Budget)
}

// csvName is the name of a CSV file.
var csvName = regexp.MustCompile(`(?i)\.csv(\.gz|\.zst)?$`)

// open opens files in their format: CSV if their names say so, or else Parquet.
func (o Options) open(ctx context.Context, files []File) (fileRows, error) {
	texts := 0
	for _, f := range files {
		if csvName.MatchString(f.Name) {
			texts++
		}
	}
	switch texts {
	case 0:
		return o.parquet(ctx, files)
	case len(files):
		return inSequence(ctx, files, o.csv)
	}
	return nil, fault.New(fault.Invalid, "some files are CSV files by their names, and others are not").WithRemedy("stage files of each format by a call of their own")
}

// types returns the known types of columns, by name.
func (o Options) types(ctx context.Context) (map[string]arrow.DataType, error) {
	if o.Types == nil {
		return nil, nil
	}
	return o.Types(ctx)
}

// content opens a file to read it from its beginning.
func (o Options) content(ctx context.Context, f File) (io.ReadCloser, error) {
	if !f.remote() {
		file, err := os.Open(f.Name)
		if err != nil {
			return nil, localError(err, f.Name)
		}
		return file, nil
	}
	content, err := o.openRemote(ctx, f)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(content, 0, content.Size()), content}, nil
}

// parquet returns the rows of Parquet files.
func (o Options) parquet(ctx context.Context, files []File) (fileRows, error) {
	how := foreign.Options{Budget: o.Budget, Threads: o.Threads, Opened: o.Opened}
	byName := map[string]File{}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
		if f.remote() {
			byName[f.Name] = f
		}
	}
	switch {
	case len(byName) == len(files):
		how.Threads, how.ReadBuffer = max(o.Threads, remoteThreads), remoteBuffer
		how.Open = func(ctx context.Context, name string) (foreign.Content, error) {
			return o.openRemote(ctx, byName[name])
		}
	case len(byName) > 0:
		return nil, fault.New(fault.Invalid, "some files are local, and others are on remote storage").WithRemedy("stage them by separate calls")
	}
	rows, err := foreign.Open(ctx, names, how)
	if err != nil {
		return nil, err
	}
	return rows, nil
}
