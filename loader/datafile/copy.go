package datafile

import (
	"context"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// copyBytes is the number of bytes that are copied at a time.
const copyBytes = 4 << 20

// Copy adds a file of the table as it is, under a new name and without a sequence number. It borrows the object with
// the file's bytes. After an error the caller discards the files.
func (u *Files) Copy(ctx context.Context, f commit.DataFile, from store.Object) error {
	part := u.part(nil, f.Partition)
	to, err := part.Next(ctx)
	if err != nil {
		return err
	}
	held, err := u.call.options.Budget.ReserveFor(ctx, "bytes of a file that is copied", copyBytes)
	if err != nil {
		return err
	}
	p := make([]byte, copyBytes)
	f.Bytes = from.Size() // the manifest's may be wrong, see icebergcat.Options
	for at := int64(0); at < f.Bytes; at += int64(len(p)) {
		p = p[:min(int64(len(p)), f.Bytes-at)]
		err := from.ReadAt(ctx, p, at)
		if err == nil {
			err = to.Write(ctx, p)
		}
		if err != nil {
			store.WhenReturned(err, held.Release)
			return err
		}
	}
	held.Release()
	if err := part.current.Finish(ctx); err != nil {
		return err
	}
	f.Location, f.Sequence = part.current.Location(), 0
	part.current = nil
	u.added = append(u.added, f)
	part.count(f.Rows, 1, f.Bytes)
	return nil
}
