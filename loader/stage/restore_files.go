package stage

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
)

// copyBytes is the number of bytes that are copied at a time.
const copyBytes = 4 << 20

// write writes the restored files, named in the order in which they were written. After an error it has
// discarded them.
func (o *restoreAttempt) write(ctx context.Context) (*uploading, error) {
	described, err := o.describe(ctx)
	if err != nil {
		return nil, err
	}
	call, err := o.call()
	if err != nil {
		return nil, err
	}
	u, err := call.begin(ctx)
	if err != nil {
		return nil, err
	}
	u.flat = true // readers find files of one sequence number in the order of their locations
	for _, f := range o.restored {
		if f.Deletes.None() {
			err = o.copy(ctx, u, described[f.Location])
		} else {
			err = o.rewrite(ctx, u, f)
		}
		if err != nil {
			u.discard(ctx)
			return nil, err
		}
	}
	return u, nil
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

// call returns the call that writes the files.
func (o *restoreAttempt) call() (*staging, error) {
	c := &staging{
		Stager: o.stager, tables: o.tables, input: o.past.Schema(), target: &target{state: o.state},
		request: TableWrite{Table: o.name, Branch: o.request.Branch, Token: o.request.Token, Progress: o.request.Progress},
	}
	if o.result.Rewritten == 0 {
		return c, nil
	}
	if err := c.match(c.target); err != nil {
		return nil, err
	}
	c.target.addLineage(o.past.Lineage)
	return c, nil
}

// named returns the table of the past with the name that users give it.
func (o *restoreAttempt) named() *catalog.Table {
	table := *o.past
	table.Name = o.request.Table
	return &table
}

// copy copies a file as it is.
func (o *restoreAttempt) copy(ctx context.Context, u *uploading, f commit.DataFile) error {
	object, err := o.stager.options.Files.Open(ctx, o.named(), f.Location, f.Bytes)
	if err != nil {
		return err
	}
	defer object.Close() //nolint:errcheck // it was only read
	part := u.part(f.Partition)
	to, err := part.Next(ctx)
	if err != nil {
		return err
	}
	held, err := o.stager.options.Budget.ReserveFor(ctx, "bytes of a file that is copied", copyBytes)
	if err != nil {
		return err
	}
	p := make([]byte, copyBytes)
	f.Bytes = object.Size() // the manifest's may be wrong, see icebergcat.Options
	for at := int64(0); at < f.Bytes; at += int64(len(p)) {
		p = p[:min(int64(len(p)), f.Bytes-at)]
		err := object.ReadAt(ctx, p, at)
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

// rewrite writes the rows of a file that are not deleted, in their order.
func (o *restoreAttempt) rewrite(ctx context.Context, u *uploading, f catalog.File) error {
	columns := slices.Concat(o.past.Fields, o.past.Lineage)
	source := plan.Source{Table: o.named(), Files: []plan.FileRange{{File: f, To: f.Rows}}, Planned: catalog.FieldIDs(columns)}
	rows, err := o.stager.options.Read(ctx, source, columns)
	if err != nil {
		return err
	}
	defer rows.Release()
	t := *u.call.target
	t.layout = extsort.Layout{Partition: t.layout.Partition}
	if f.SortOrder != t.ordered {
		t.ordered, t.sorting = 0, nil
	}
	whole := u.call.target
	u.call.target = &t
	defer func() { u.call.target = whole }()
	sorted, err := u.call.sort(ctx, rows)
	if err != nil {
		return err
	}
	defer sorted.Release()
	first := len(u.added)
	if err := u.all(ctx, sorted); err != nil {
		return err
	}
	for _, added := range u.added[first:] {
		withoutMetrics(added.ColumnMetrics, catalog.LineageFields())
	}
	return nil
}
