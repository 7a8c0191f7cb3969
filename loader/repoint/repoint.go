package repoint

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/deletes"
)

// MovedFile is a data file of a table whose rows are now in another file, in the same order.
type MovedFile struct {
	Old catalog.File // with its deletes
	New string       // the location of the other file
}

// Options configures how deletes are read and written.
type Options struct {
	// Version is the format version of the table.
	Version int
	// Deletes reads the deletes of the old files.
	Deletes *deletes.Pool
	// Files writes the delete files. If Write returns an error, or the files are not committed, the
	// caller must remove the files at all locations that Name returned.
	Files store.Writer
	// Name returns the location of the next delete file, with an extension such as .parquet.
	Name func(extension string) string
	// Stays reports whether a data file that is not moved stays in the table. It is called for
	// files that position deletes name. If it is nil, all of these files stay.
	Stays func(location string) bool
	// Budget is charged for the written files; nil is unlimited.
	Budget *budget.Budget
}

// Repointed has the changes to a table's delete files, to be committed along with its data files.
type Repointed struct {
	Add    []catalog.DeleteFile // for commit.Change.AddDeletes
	Remove []string             // for commit.Change.RemoveDeletes
}

// Write writes the deletes of each moved file's old location again, for its new location. It does
// not change deletes of rows in files that are not moved. It skips files without position deletes
// and deletion vectors.
func Write(ctx context.Context, t *catalog.Table, moved []MovedFile, o Options) (out Repointed, err error) {
	held, err := o.Budget.ReserveFor(ctx, "delete files of table "+t.Name, 0)
	if err != nil {
		return out, err
	}
	defer held.Release()
	w := &deleteWriter{Options: o, table: t, held: held}
	for _, m := range moved {
		if m.Old.Deletes.Vector == nil && len(m.Old.Deletes.Positions) == 0 {
			continue
		}
		if err := w.file(ctx, m); err != nil {
			return out, fault.Op(err, "write the deletes of %s for %s", m.Old.Location, m.New)
		}
	}
	if err := w.end(ctx); err != nil {
		return out, err
	}
	out.Add = w.added
	old := make([]catalog.File, len(moved))
	for i, m := range moved {
		old[i] = m.Old
	}
	out.Remove, err = Obsolete(ctx, t, old, o.Deletes, o.Stays)
	return out, err
}

// Obsolete returns the sorted locations of the position delete files that no longer apply to any
// data file after the given data files are removed. It leaves out deletion vectors, because a
// commit removes these together with their data files. For the parameter stays, see Options.Stays.
func Obsolete(ctx context.Context, t *catalog.Table, removed []catalog.File, pool *deletes.Pool, stays func(location string) bool) ([]string, error) {
	gone := make(map[string]bool, len(removed))
	for _, f := range removed {
		gone[f.Location] = true
	}
	var out []string
	seen := map[*catalog.DeleteFile]bool{}
	for _, f := range removed {
		for _, d := range f.Deletes.Positions {
			if seen[d] {
				continue
			}
			seen[d] = true
			names, err := pool.Named(ctx, t, d)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(names, func(name string) bool { return !gone[name] && (stays == nil || stays(name)) }) {
				out = append(out, d.Location)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
