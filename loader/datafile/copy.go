package datafile

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// copyBytes is the number of bytes that are copied at a time.
const copyBytes = 4 << 20

// Copy adds an unchanged copy of a file of the table, with a new name and without a sequence
// number. The caller still owns the object with the file's bytes. After an error the caller
// discards the files.
func (u *Files) Copy(ctx context.Context, f commit.DataFile, from store.Object) error {
	part := u.part(nil, f.Partition)
	if _, err := part.Next(ctx); err != nil {
		return err
	}
	held, err := u.call.options.Budget.ReserveFor(ctx, "bytes of a file that is copied", copyBytes)
	if err != nil {
		return err
	}
	f.Bytes = from.Size() // the size in the manifest may be wrong, see icebergcat.Options
	if err := copyContent(ctx, part.current, from, budget.NewBuffer(make([]byte, copyBytes), held)); err != nil {
		return err
	}
	if err := part.current.Finish(ctx); err != nil {
		return err
	}
	f.Location, f.Sequence, f.Snapshot = part.current.Location(), 0, 0
	part.current = nil
	u.added = append(u.added, f)
	part.count(f.Rows, 1, f.Bytes)
	return nil
}

// copyContent copies the content of an object through p, which it releases.
func copyContent(ctx context.Context, to store.Upload, from store.Object, p *memory.Buffer) error {
	defer p.Release()
	for at := int64(0); at < from.Size(); at += int64(p.Len()) {
		part := memory.SliceBuffer(p, 0, int(min(int64(p.Len()), from.Size()-at)))
		err := from.ReadAt(ctx, part, at)
		if err == nil {
			err = to.Write(ctx, part)
		}
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
