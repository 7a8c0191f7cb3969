package inputs

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// At least remoteThreads reads from remote storage run at the same time, and a request reads about
// remoteBuffer bytes. Each request takes long, so more requests run at the same time than reads of
// a local disk, and each of them reads more.
const (
	remoteThreads = 8
	remoteBuffer  = 1 << 20
)

// fileRows reads the rows of files, file by file.
type fileRows interface {
	array.RecordReader
	// File returns the index of the file that the current batch is from. A batch has rows of one file only.
	File() int
}

// Open returns the rows of files, in the order of the files. All files must have the same columns
// as the first file, in any order. Columns in the names of folders are added, unless
// o.NoFolderColumns is set. The caller releases the reader.
//
// Open returns an error of kind Invalid if the files have different formats. It also returns the
// errors of foreign.Open, Options.csv, Options.jsonLines and Options.arrow.
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

// For each format, the pattern of the names of its files.
var (
	csvName     = regexp.MustCompile(`(?i)\.csv(\.gz|\.zst)?$`)
	jsonName    = regexp.MustCompile(`(?i)\.(jsonl|ndjson|json)(\.gz|\.zst)?$`)
	arrowName   = regexp.MustCompile(`(?i)\.(arrows?|feather|ipc)$`)
	parquetName = regexp.MustCompile(`(?i)\.(parquet|parq|pq)$`)
)

// format is a file format.
type format int

// Formats.
const (
	formatParquet format = iota
	formatCSV
	formatJSONLines
	formatArrow
)

// open determines the format of files, which must be the same for all files, and returns their
// rows.
func (o Options) open(ctx context.Context, files []File) (fileRows, error) {
	var first format
	for i, f := range files {
		is, err := o.format(ctx, f)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = is
		}
		if is != first {
			return nil, fault.New(fault.Invalid, "%s and %s have different formats", files[0].Name, f.Name).In("", f.Name).
				WithRemedy("stage files of each format by a call of their own")
		}
	}
	switch first {
	case formatCSV:
		return inSequence(ctx, files, o.csv)
	case formatJSONLines:
		return inSequence(ctx, files, o.jsonLines)
	case formatArrow:
		return inSequence(ctx, files, o.arrow)
	case formatParquet:
	}
	return o.parquet(ctx, files)
}

// format determines the format of a file from its name or, if the name is unknown, from its first
// bytes.
func (o Options) format(ctx context.Context, f File) (format, error) {
	switch {
	case f.stdin:
		return o.stdinFormat()
	case csvName.MatchString(f.Name):
		return formatCSV, nil
	case jsonName.MatchString(f.Name):
		return formatJSONLines, nil
	case arrowName.MatchString(f.Name):
		return formatArrow, nil
	case parquetName.MatchString(f.Name):
		return formatParquet, nil
	}
	content, err := o.content(ctx, f)
	if err != nil {
		return 0, err
	}
	start := make([]byte, len(arrowFile))
	n, err := io.ReadFull(content, start)
	if closed := content.Close(); closed != nil || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, localError(errors.Join(err, closed), f.Name)
	}
	return magic(string(start[:n]), f.Name)
}

// magic returns the format of a file that begins with the given bytes.
func magic(start, name string) (format, error) {
	switch {
	case strings.HasPrefix(start, "PAR1"):
		return formatParquet, nil
	case start == arrowFile, strings.HasPrefix(start, arrowStreams):
		return formatArrow, nil
	}
	return 0, fault.New(fault.Invalid, "%s has an unknown format", name).In("", name).
		WithRemedy("stage Parquet files, Arrow files and streams (.arrow, .feather, .ipc), CSV files (.csv, .csv.gz, .csv.zst), or JSON lines (.jsonl, .ndjson, .json, also with .gz or .zst)")
}

// stdinFormat returns the format of standard input.
func (o Options) stdinFormat() (format, error) {
	switch o.StdinFormat {
	case "csv":
		return formatCSV, nil
	case "jsonl":
		return formatJSONLines, nil
	}
	start, err := o.Stdin.Peek(len(arrowFile))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fault.Op(err, "read %s", stdinName)
	}
	is, err := magic(string(start), stdinName)
	if err != nil {
		return 0, fault.As(err).WithRemedy("write an Arrow stream to it, CSV with --input-format csv, or JSON lines with --input-format jsonl")
	}
	if is == formatParquet {
		return 0, fault.New(fault.Invalid, "Parquet cannot be read from standard input: its last bytes come first").WithRemedy("write the rows to a file, or as an Arrow stream")
	}
	return is, nil
}

// Promoted is the key of a field's metadata that marks a column which a promotion made.
const Promoted = "penstock.promoted"

// types returns the columns whose types are known, with their types.
func (o Options) types(ctx context.Context) ([]arrow.Field, error) {
	if o.Types == nil {
		return nil, nil
	}
	return o.Types(ctx)
}

// typeOf returns the type of a column.
func typeOf(known []arrow.Field, name string) (arrow.DataType, bool) {
	i := slices.IndexFunc(known, func(f arrow.Field) bool { return f.Name == name })
	if i < 0 {
		return nil, false
	}
	return known[i].Type, true
}

// content opens a file to read it from its beginning.
func (o Options) content(ctx context.Context, f File) (io.ReadCloser, error) {
	if f.stdin {
		return io.NopCloser(o.Stdin), nil
	}
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
