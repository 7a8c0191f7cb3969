package commits

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// DropNew drops a table that a change created. See commit.Brancher.
//
// A SQL catalog removes the table only if the table is unchanged since it was loaded. A REST catalog
// has no such condition: a commit between loading and dropping is lost.
func (w *TableWriter) DropNew(ctx context.Context, table string, snapshot int64) (folder string, err error) {
	if err := w.MayWrite(table); err != nil {
		return "", err
	}
	ctx, done, err := w.takeTurn(ctx, table)
	if err != nil {
		return "", err
	}
	defer done()
	drop := &dropping{writing: writing{source: w.source, table: table}, snapshot: snapshot}
	err = drop.untilDone(ctx, "table "+table+" was not dropped", drop.once)
	if err != nil && drop.unsure {
		err = commit.AsUncertain(err)
	}
	return drop.folder, fault.Op(err, "drop table %s", table)
}

// dropping is one call that drops a table.
type dropping struct {
	writing
	snapshot int64
	folder   string // of the table
	sent     bool   // whether a request was sent
	unsure   bool   // whether the outcome of a request is unknown
}

// once makes one attempt. It returns true if the catalog does not have the table.
func (d *dropping) once(ctx context.Context) (bool, error) {
	held := d.source.Hold(d.table)
	defer held.Release()
	meta, err := d.source.Load(ctx, d.table, held)
	if d.sent && fault.KindOf(err) == fault.NotFound {
		return true, nil // an earlier attempt dropped it, or another program did
	}
	if err != nil {
		return false, err
	}
	history, err := meta.History(d.table, held)
	if err != nil {
		return false, err
	}
	if err := history.MayDrop(d.snapshot); err != nil {
		return false, err
	}
	d.folder = meta.Location()
	outcome, err := d.send(ctx, meta)
	switch outcome {
	case locator.Committed:
		return true, nil
	case locator.Lost:
		return false, nil
	case locator.Refused:
		return false, err
	case locator.Unknown:
		d.unsure = true
		if d.unknown++; d.unknown == MaxUnknown {
			return false, err
		}
	}
	return false, nil
}

// send removes the table from the catalog. In a catalog that does not write metadata itself, it then
// removes the metadata files, so that the files of the table count as orphan files of a later table
// in the same folder. Metadata files that cannot be removed stay.
func (d *dropping) send(ctx context.Context, meta *metadata.Loaded) (locator.Outcome, error) {
	of, err := d.located(meta)
	if err != nil {
		return locator.Refused, err
	}
	d.sent = true
	switch tables := d.source.Locator.(type) {
	case locator.Dropper:
		return tables.Drop(ctx, of)
	case locator.Swapper:
		outcome, err := tables.Delete(ctx, of, meta.File.Location)
		if outcome == locator.Committed {
			d.removeMetadata(ctx, meta)
		}
		return outcome, err
	}
	return locator.Refused, unwritable(d.table)
}

func (d *dropping) removeMetadata(ctx context.Context, meta *metadata.Loaded) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxRemoving)
	defer cancel()
	locations := []string{meta.File.Location}
	for earlier := range meta.PreviousFiles() {
		locations = append(locations, earlier.MetadataFile)
	}
	for _, location := range locations {
		if writer, err := d.writer(ctx, meta, location); err == nil && meta.May("file", location) == nil {
			_ = writer.Remove(ctx, location)
		}
	}
}
