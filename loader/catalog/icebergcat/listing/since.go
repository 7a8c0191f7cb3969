package listing

import (
	"context"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
)

// Appended lists the files that were appended after a snapshot. See
// catalog.Catalog.
//
// The listing is correct if only appends added rows, and if all files that they added are still
// live. To check the latter, Appended compares the number of listed files with the counts in the
// manifest lists.
func (f *FileLister) Appended(ctx context.Context, t *catalog.Table, since int64, columns []int, bounds []int) ([]catalog.File, error) {
	held := f.source.Hold(t.Name)
	defer held.Release()
	meta, err := f.source.Load(ctx, t.Name, held)
	if err != nil {
		return nil, err
	}
	l, err := NewListing(f.source, meta, t.Pin, columns, bounds)
	if err != nil {
		return nil, err
	}
	l.Held, l.commits = held, &commits{since: since, pinned: t.Pin.Snapshot, byID: map[int64]*pastCommit{}}
	files, err := l.appended(ctx, t)
	if fault.KindOf(err) == fault.Corrupt {
		return nil, l.expiredMeanwhile(ctx, t, err)
	}
	return files, err
}

// appended lists the files in the manifests that were written after since.
func (l *Listing) appended(ctx context.Context, t *catalog.Table) ([]catalog.File, error) {
	after, err := l.commits.after(l.meta)
	if err != nil || len(after) == 0 {
		return nil, err
	}
	if err := l.readCommits(ctx, after); err != nil {
		return nil, err
	}
	files, err := l.Files(ctx, t)
	if err != nil {
		return nil, err
	}
	return files, l.onlyAppended(ctx)
}

// readCommits reads the manifest lists of snapshots.
func (l *Listing) readCommits(ctx context.Context, snapshots []int64) error {
	l.commits.all = make([]*pastCommit, len(snapshots))
	for i, id := range snapshots {
		c := &pastCommit{Snapshot: l.meta.SnapshotByID(id)}
		if c.Summary != nil {
			c.operation = catalog.Operation(c.Summary.Operation)
		}
		l.commits.all[i], l.commits.byID[id] = c, c
	}
	failed := make([]error, len(snapshots))
	var group errgroup.Group
	group.SetLimit(manifestReaders)
	for i, c := range l.commits.all {
		group.Go(func() error {
			failed[i] = l.count(ctx, c)
			return failed[i]
		})
	}
	if group.Wait() != nil {
		return failed[slices.IndexFunc(failed, func(err error) bool { return err != nil })]
	}
	return nil
}

// count reads how many files a snapshot added and removed.
func (l *Listing) count(ctx context.Context, c *pastCommit) error {
	held := l.source.Hold(l.meta.Name)
	defer held.Release()
	wrote, err := l.wrote(ctx, c, held)
	for _, m := range wrote {
		c.added, c.removed = sum(c.added, m.AddedDataFiles()), sum(c.removed, m.DeletedDataFiles())
	}
	return err
}

// wrote returns the manifests of data files that the snapshot wrote, without the manifests that it
// took over from its parent.
func (l *Listing) wrote(ctx context.Context, c *pastCommit, held *budget.Reservation) ([]iceberg.ManifestFile, error) {
	all, err := l.list(ctx, c.Snapshot, held)
	return slices.DeleteFunc(all, func(m iceberg.ManifestFile) bool {
		return m.ManifestContent() != iceberg.ManifestContentData || m.SnapshotID() != c.SnapshotID
	}), err
}

// sum adds two counts. A negative count means unknown: if one of them is negative, sum returns -1.
func sum(a, b int32) int32 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// commits has the snapshots after since. Appended lists the files that they added. Listing.commits
// is nil if all files are listed.
type commits struct {
	since, pinned int64
	all           []*pastCommit // oldest first
	byID          map[int64]*pastCommit
	counting      sync.Mutex // guards pastCommit.listed, because manifests are read concurrently
}

// after returns the ids of the snapshots after since.
func (c *commits) after(meta *metadata.Loaded) ([]int64, error) {
	return catalog.After(meta.Name, c.since, c.pinned, meta.Parent)
}

// pastCommit describes how a snapshot changed the data files, according to its manifest list.
type pastCommit struct {
	*icetable.Snapshot
	operation      catalog.Operation // "" if unknown
	added, removed int32             // numbers of data files; negative if unknown
	listed         int32             // number of live files that it added
}

// offends returns a text for an error if the snapshot may have added rows without an append, or if
// the number of files that it appended is unknown. Otherwise it returns "".
func (c *pastCommit) offends() string {
	switch c.operation {
	case catalog.OpAppend:
		if c.added < 0 {
			return "does not say how many files it added"
		}
	case catalog.OpOverwrite, catalog.OpDelete:
		if c.added != 0 {
			return "added files"
		}
	case catalog.OpReplace:
		if c.added != 0 && c.removed == 0 {
			return "added files and replaced none"
		}
	default:
		return "did what is not known"
	}
	return ""
}

// passes reports whether a manifest can be skipped: it is a manifest of data files that no snapshot
// after since wrote.
func (c *commits) passes(m iceberg.ManifestFile) bool {
	return c != nil && m.ManifestContent() == iceberg.ManifestContentData && c.byID[m.SnapshotID()] == nil
}

// keep returns the entries of a manifest that are to be listed: of data files, only those that an
// append after since added; of delete files, all.
func (c *commits) keep(of iceberg.ManifestFile, live []iceberg.ManifestEntry) []iceberg.ManifestEntry {
	if c == nil || of.ManifestContent() != iceberg.ManifestContentData {
		return live
	}
	c.counting.Lock()
	defer c.counting.Unlock()
	return slices.DeleteFunc(live, func(e iceberg.ManifestEntry) bool {
		by := c.byID[e.SnapshotID()]
		if by == nil || by.operation != catalog.OpAppend {
			return true
		}
		by.listed++
		return false
	})
}

// onlyAppended returns an error if a snapshot after since did more than append. The error names the
// newest such snapshot. The files must have been listed before.
func (l *Listing) onlyAppended(ctx context.Context) error {
	appended, offence := map[string]bool{}, -1
	for i, c := range l.commits.all {
		lost := c.operation == catalog.OpAppend && c.listed != c.added
		if lost || c.offends() != "" {
			offence = i
		}
		if lost {
			if err := l.gather(ctx, c, iceberg.EntryStatusADDED, appended); err != nil {
				return err
			}
		}
	}
	if offence < 0 {
		return nil
	}
	for _, c := range slices.Backward(l.commits.all) {
		what := c.offends()
		if what == "" {
			took, err := l.took(ctx, c, appended)
			if err != nil {
				return err
			}
			if !took {
				continue
			}
			what = "removed files that were appended"
		}
		return l.notAppended(c, what)
	}
	return l.notAppended(l.commits.all[offence], "added files that are gone, and no snapshot says that it removed them,")
}

func (l *Listing) notAppended(c *pastCommit, what string) error {
	return catalog.NotAppended(l.meta.Name, c.SnapshotID, l.commits.since, string(c.operation), what)
}

// took reports whether a snapshot removed at least one of the given files.
func (l *Listing) took(ctx context.Context, c *pastCommit, files map[string]bool) (bool, error) {
	if c.removed == 0 || len(files) == 0 {
		return false, nil
	}
	removed := map[string]bool{}
	err := l.gather(ctx, c, iceberg.EntryStatusDELETED, removed)
	for location := range removed {
		if files[location] {
			return true, err
		}
	}
	return false, err
}

// gather adds the locations of the data files for which a snapshot wrote an entry with the given
// status.
func (l *Listing) gather(ctx context.Context, c *pastCommit, status iceberg.ManifestEntryStatus, into map[string]bool) error {
	held := l.source.Hold(l.meta.Name)
	defer held.Release()
	wrote, err := l.wrote(ctx, c, held)
	if err != nil {
		return err
	}
	for _, m := range wrote {
		opened, err := l.Open(ctx, m, held)
		if err != nil {
			return err
		}
		entries, err := opened.Entries(Plain)
		if err != nil {
			return err
		}
		for _, e := range slices.Concat(entries.Live, entries.removed) {
			if e.Status() == status && e.SnapshotID() == c.SnapshotID {
				into[e.DataFile().FilePath()] = true
			}
		}
	}
	return nil
}
