package inputs

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
	"github.com/penstock/penstock/internal/store"
)

// remote returns the files that a location on remote storage stands for. A location that ends with
// a slash is a folder, a location with *, ? or [ is a pattern, and any other location is one file.
func (f *finder) remote(ctx context.Context, location string) ([]File, error) {
	files, err := f.options.store(ctx, location)
	if err != nil {
		return nil, err
	}
	folder, pattern := strings.TrimRight(location, "/"), ""
	switch {
	case isPattern(location):
		location = folder
		at := strings.LastIndex(location[:strings.IndexAny(location, "*?[")], "/") + 1
		folder, pattern = location[:at], location[at:]
	case strings.HasSuffix(location, "/"):
		folder += "/"
	default:
		return oneRemote(ctx, files, location)
	}
	if strings.Count(folder, "/") < 3 { //nolint:mnd // scheme://bucket/
		return nil, fault.New(fault.Invalid, "%s names no bucket", location).In("", location).WithRemedy("write it as s3://bucket/folder/")
	}
	found, err := list(ctx, files, folder, pattern)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 && pattern != "":
		return nil, noMatch(location)
	case len(found) == 0:
		return nil, emptyFolder(folder)
	}
	return found, nil
}

// list returns the files of a folder that match a pattern. All files match the pattern "".
func list(ctx context.Context, files store.Store, folder, pattern string) (found []File, err error) {
	lister, ok := files.(store.FolderLister)
	if !ok {
		return nil, fault.New(fault.Invalid, "folders of %s cannot be listed", folder).In("", folder).WithRemedy("name each file")
	}
	listing, err := lister.List(ctx, folder)
	if err != nil {
		return nil, err
	}
	err = store.Each(ctx, listing, func(e store.FolderEntry) error {
		ok, err := wanted(folder, strings.TrimPrefix(e.Location, folder), pattern)
		if err != nil || !ok {
			return err
		}
		if found = append(found, File{Name: e.Location, Size: e.Size}); len(found) > maxFiles {
			return fault.New(fault.Exhausted, "folder %s has more than %d files", folder, maxFiles).In("", folder).WithRemedy("stage them in several calls")
		}
		return nil
	})
	return found, err
}

// wanted reports whether a file at any depth below a folder matches a pattern and is not skipped
// because of its name. below is the file's path relative to the folder.
func wanted(folder, below, pattern string) (bool, error) {
	var patterns []string
	if pattern != "" {
		patterns = strings.Split(pattern, "/")
	}
	names := strings.Split(below, "/")
	if len(names) < len(patterns) {
		return false, nil
	}
	for i, name := range names {
		if i < len(patterns) {
			if ok, err := matches(patterns[i], name); !ok || err != nil {
				return false, err
			}
			continue
		}
		if err := tableLog(folder+strings.Join(names[:i], "/"), name); err != nil {
			return false, err
		}
		if skipped(name) {
			return false, nil
		}
	}
	return true, nil
}

// oneRemote returns a file on remote storage, or NotFound if it does not exist.
func oneRemote(ctx context.Context, files store.Store, location string) ([]File, error) {
	object, err := files.Open(ctx, location, store.SizeUnknown)
	if fault.KindOf(err) == fault.Corrupt { // stores expect files that table metadata names, so their error for a missing file has kind Corrupt
		return nil, fault.New(fault.NotFound, "%w", errors.New(fault.As(err).Message)).In("", location).
			WithRemedy("check the name of the file; the name of a folder ends with a slash")
	}
	if err != nil {
		return nil, err
	}
	return []File{{Name: location, Size: object.Size()}}, object.Close()
}

// store returns the store of a location.
func (o Options) store(ctx context.Context, location string) (store.Store, error) {
	if o.Remote == nil {
		return nil, store.Kinds(nil).Refuse(location)
	}
	return o.Remote(ctx, location)
}

// remoteContent reads a file on remote storage. Its reads use the context of openRemote.
type remoteContent struct {
	io.ReaderAt
	io.Closer
	size int64
}

// Size implements foreign.Content.
func (c remoteContent) Size() int64 { return c.size }

// readerAt is a function that implements io.ReaderAt.
type readerAt func(p []byte, off int64) (int, error)

// ReadAt implements io.ReaderAt.
func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// openRemote opens a file on remote storage. Each read allocates a new buffer, because after a read
// was abandoned, the store may still write to its buffer.
func (o Options) openRemote(ctx context.Context, f File) (foreign.Content, error) {
	files, err := o.store(ctx, f.Name)
	if err != nil {
		return nil, err
	}
	object, err := files.Open(ctx, f.Name, f.Size)
	if err != nil {
		return nil, err
	}
	size := object.Size()
	read := func(p []byte, off int64) (int, error) {
		if off < 0 {
			return 0, io.ErrUnexpectedEOF
		}
		n := min(int64(len(p)), size-off)
		if n <= 0 {
			return 0, io.EOF
		}
		own := make([]byte, n)
		if err := object.ReadAt(ctx, memory.NewBufferBytes(own), off); err != nil {
			return 0, err
		}
		copy(p, own)
		if n < int64(len(p)) {
			return int(n), io.EOF
		}
		return int(n), nil
	}
	return remoteContent{readerAt(read), object, size}, nil
}
