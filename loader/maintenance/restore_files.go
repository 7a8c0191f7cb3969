package maintenance

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/plan"
)

// write writes the restored files. Their names sort in the order in which the originals were
// written. If it fails, it discards the files.
func (o *restoreAttempt) write(ctx context.Context) (*datafile.Files, error) {
	described, err := o.describe(ctx)
	if err != nil {
		return nil, err
	}
	if o.result.Rewritten > 0 {
		if o.lacked, err = lackedColumns(ctx, o.tables, o.past, o.restored); err != nil {
			return nil, err
		}
	}
	folder := o.state.DataFolder()
	store, err := o.tables.FileStore(ctx, o.name, folder)
	if err != nil {
		return nil, err
	}
	o.rows = datafile.NewCall(o.options.Rows, o.request.Progress)
	for _, f := range o.restored {
		o.rows.WillWrite(f.Rows)
	}
	files := o.rows.NewFiles(store, folder, o.request.Token, true) // readers order files of the same sequence number by location
	for _, f := range o.restored {
		if f.Deletes.None() {
			err = o.copy(ctx, files, described[f.Location])
		} else {
			err = o.rewrite(ctx, files, f)
		}
		if err != nil {
			files.Discard(ctx)
			return nil, err
		}
	}
	return files, nil
}

// describe returns the restored files as manifests describe them, by location.
func (o *restoreAttempt) describe(ctx context.Context) (map[string]commit.DataFile, error) {
	out := map[string]commit.DataFile{}
	for _, f := range o.restored {
		out[f.Location] = commit.DataFile{}
	}
	files, err := o.tables.DataFiles(ctx, o.past, func(location string) bool {
		_, ok := out[location]
		return ok
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		out[f.Location] = f
	}
	for location, f := range out {
		if f.Location == "" {
			return nil, fault.New(fault.Internal, "file %s of snapshot %d is not described", location, o.request.Snapshot).In(o.request.Table, location)
		}
	}
	return out, nil
}

// named returns the table at the snapshot, with the name that users give it.
func (o *restoreAttempt) named() *catalog.Table {
	table := *o.past
	table.Name = o.request.Table
	return &table
}

// copy copies a file unchanged.
func (o *restoreAttempt) copy(ctx context.Context, files *datafile.Files, f commit.DataFile) error {
	object, err := o.options.Files.Open(ctx, o.named(), f.Location, f.Bytes)
	if err != nil {
		return err
	}
	defer object.Close() //nolint:errcheck // it was only read
	return files.Copy(ctx, f, object)
}

// rewrite writes the rows of a file that are not deleted, in their original order.
func (o *restoreAttempt) rewrite(ctx context.Context, files *datafile.Files, f catalog.File) error {
	past := withoutColumns(o.past, o.lacked[f.Location])
	target, err := datafile.Match(past.Schema(), o.state, datafile.MatchOptions{Lineage: past.Lineage})
	if err != nil {
		return err
	}
	columns := slices.Concat(past.Fields, past.Lineage)
	source := plan.Source{Table: o.named(), Files: []plan.FileRange{{File: f, To: f.Rows}}, Planned: catalog.FieldIDs(columns)}
	rows, err := o.options.Read(ctx, source, columns)
	if err != nil {
		return err
	}
	defer rows.Release()
	target = target.AsWritten(f.SortOrder)
	sorted, err := o.rows.Sort(ctx, target, rows, datafile.SortOptions{})
	if err != nil {
		return err
	}
	defer sorted.Release()
	return files.Write(ctx, target, sorted)
}
