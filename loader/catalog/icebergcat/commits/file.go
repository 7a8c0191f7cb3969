package commits

import (
	"bytes"
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/tablestore"
)

// maxRemoving is the maximum time for removing files. It also applies if the context of the call
// has already ended.
const maxRemoving = 10 * time.Second

// File writes a metadata file, reads it back, and calls commit, which makes it current. The caller
// has charged the memory of content. If the commit certainly failed, File removes the file. If the
// outcome is unknown, the file stays; it may be an orphan, but it is small, and maintenance removes
// orphan files.
func File(ctx context.Context, source *metadata.Source, file metafile.Allowance, content []byte, commit func() (locator.Outcome, error)) (locator.Outcome, error) {
	files, err := source.Files.Store(ctx, file.Location)
	if err != nil {
		return locator.Refused, err
	}
	writer := store.OperationsOf(files)
	if err := file.Held.Lend(content, func(p *memory.Buffer) error { return writer.Create(ctx, file.Location, p) }); err != nil {
		return locator.Refused, fault.As(err).In(file.Table, file.Location)
	}
	outcome, err := locator.Refused, confirm(ctx, source, source.Files, file, content)
	if err == nil {
		outcome, err = commit()
	}
	if outcome == locator.Lost || outcome == locator.Refused {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxRemoving)
		defer cancel()
		_ = writer.Remove(removing, file.Location) // an orphan does no harm
	}
	return outcome, err
}

// confirm reads a written file back, and returns an error if its content is not what was written: a
// proxy may have acknowledged a write that never reached the storage. If the catalog then named a
// missing or incomplete file, the table would be unreadable.
func confirm(ctx context.Context, source *metadata.Source, from tablestore.Opener, file metafile.Allowance, content []byte) error {
	there, err := source.Read(ctx, from, file)
	if err == nil && !bytes.Equal(there, content) {
		err = fault.New(fault.Unavailable, "file %s does not have the bytes that were written", file.Location)
	}
	file.Held.Shrink(int64(len(there)))
	switch {
	case err == nil || fault.KindOf(err) == fault.Exhausted:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fault.New(fault.Unavailable, "storage accepted a file but does not have it: %w", err).In(file.Table, file.Location).
		WithRemedy("check what responds in place of the store; the table is unchanged")
}
