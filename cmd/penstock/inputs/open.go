package inputs

import (
	"context"

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

// Open returns the rows of files, in their order. All files have the columns of the first one, in any order. The caller
// releases the reader.
//
// Errors: those of foreign.Open.
func Open(ctx context.Context, files []File, o Options) (array.RecordReader, error) {
	rows, err := o.parquet(ctx, files)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// parquet returns the rows of Parquet files.
func (o Options) parquet(ctx context.Context, files []File) (fileRows, error) {
	how := foreign.Options{Budget: o.Budget, Threads: o.Threads}
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
