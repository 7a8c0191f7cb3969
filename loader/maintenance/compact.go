package maintenance

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/compact"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/transaction"
)

// Compaction is a request to compact a table.
type Compaction struct {
	Table  string
	Branch string // "" is main
	// Partition selects partitions by texts such as day=2026-11-01, the name of a partition field
	// and a value. If it is empty, all partitions are selected. If several texts name the same
	// field, one of them must match.
	Partition []string
	// Key has the names of the key columns. If it is empty, the key consists of the columns of the
	// table's buckets.
	Key []string
	// AnyOrder allows rewriting files even if that changes the order in which readers find the rows
	// of a key.
	AnyOrder bool
	// MinFiles is the smallest number of small files in a partition that are rewritten; 0 means 4.
	MinFiles int
	// FileBytes is the target size of files; 0 means the Rewriter's.
	FileBytes int64
	// DryRun writes nothing.
	DryRun bool
	// Progress is called from time to time; it may be nil.
	Progress func(CompactionProgress)
}

// CompactionProgress is the progress of a compaction.
type CompactionProgress struct {
	Done, All int // files rewritten so far, and files to rewrite at the start
	// Progress counts the rows and bytes of all groups. Deleted rows count as written until their group is complete.
	datafile.Progress
}

// CompactionResult describes what a compaction did, or what a dry run would do.
type CompactionResult struct {
	// Snapshot is the last snapshot that was committed; 0 if there is none.
	Snapshot int64 `json:"snapshot,omitempty,string"`
	Commits  int   `json:"commits"`
	// Files, Bytes and Rows count what was read, including deleted rows.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	Rows  int64 `json:"rows"`
	// Deleted is the number of deleted rows, which the new files do not contain.
	Deleted int64 `json:"deleted"`
	// FilesWritten and BytesWritten count the new files. In a dry run, they are estimates.
	FilesWritten int   `json:"files_written"`
	BytesWritten int64 `json:"bytes_written"`
	// Deletes is the number of delete files that were removed with the files.
	Deletes int `json:"deletes"`
	// Kept is the number of files that were not rewritten because that could change the order of
	// the rows of a key.
	Kept int `json:"kept"`
}

// The defaults and bounds of compactions.
const (
	defaultMinFiles = 4
	groupBytes      = 1 << 30 // of files that are rewritten by one commit
)

// Compact rewrites files of a table that are small, have deletes, are of an older partition spec,
// or are not sorted. Readers find the same rows before, during and after the call: each commit
// replaces one group of files. A repeated call continues with the remaining files.
//
// It returns the errors of stage.Stager.Stage, and Corrupt if files do not match the table's
// metadata.
func (r *Rewriter) Compact(ctx context.Context, request Compaction) (CompactionResult, error) {
	request.Branch, request.MinFiles = cmp.Or(request.Branch, commit.Main), cmp.Or(request.MinFiles, defaultMinFiles)
	options := r.options
	options.Rows.FileBytes = cmp.Or(request.FileBytes, options.Rows.FileBytes)
	c := &compacting{options: options, request: request, made: map[string]bool{}, once: map[string]bool{}}
	err := c.holdNames(ctx)
	if err == nil {
		defer c.names.held.Release()
		err = c.run(ctx)
	}
	err = commit.Repeatable(err, "repeat the call: it continues with the files that the table has then")
	return c.result, fault.Op(err, "compact table %s", request.Table)
}

// compacting is one call of Compact.
type compacting struct {
	options Options
	request Compaction
	tables  Tables
	name    string          // the table's name in its catalog
	made    map[string]bool // the locations of files that this call wrote
	once    map[string]bool // by location, for files whose keys were counted: whether each of their keys occurs in only one row
	names   dataFileNames
	all     int           // files to rewrite at the start
	allRows int64         // stored rows of these files
	group   *compactGroup // the group that the last attempt tried to commit
	result  CompactionResult
}

// run rewrites one group of files after the other.
func (c *compacting) run(ctx context.Context) (err error) {
	if c.tables, c.name, err = c.options.Route(c.request.Table); err != nil {
		return err
	}
	for {
		made, err := transaction.Transaction{Tables: c.tables, Table: c.name, Branch: c.request.Branch, Prepare: c.attempt}.Run(ctx)
		if err != nil || made.Snapshot == 0 {
			return err
		}
		c.count(made)
	}
}

// attempt chooses the next group of files, and rewrites it.
func (c *compacting) attempt(ctx context.Context, a *transaction.Attempt) error {
	g, err := c.next(ctx, a.State)
	if err != nil {
		return err
	}
	if c.result.Kept = len(g.selected.Kept); c.all == 0 {
		c.all, c.allRows = countFiles(g.selected.Sets)
	}
	if c.request.DryRun {
		c.estimate(g.selected.Sets)
		return nil
	}
	if len(g.sets) == 0 {
		return nil
	}
	files, err := g.rewrite(ctx)
	if err != nil {
		return err
	}
	a.Discard = files.Discard
	if g.change, err = g.changeOf(files.Added()); err != nil {
		return err
	}
	c.group = g
	a.Commit = func(ctx context.Context) (commit.Committed, error) { return c.tables.Commit(ctx, g.change) }
	return nil
}

func countFiles(sets []compact.RewriteSet) (files int, rows int64) {
	for _, set := range sets {
		files, rows = files+len(set.Files), rows+set.Rows()
	}
	return files, rows
}

// estimate sets the result of a dry run.
func (c *compacting) estimate(sets []compact.RewriteSet) {
	r, size := &c.result, c.options.Rows.FileBytes
	for _, set := range sets {
		bytes := set.Bytes()
		r.Files, r.Bytes, r.Rows = r.Files+len(set.Files), r.Bytes+bytes, r.Rows+set.Rows()
		r.FilesWritten, r.BytesWritten = r.FilesWritten+int((bytes+size-1)/size), r.BytesWritten+bytes
	}
}

// compactGroup is a group of files that one commit replaces.
type compactGroup struct {
	*compacting
	token    string                     // of the commit
	rows     *datafile.Call             // sorts and writes the rows
	target   *datafile.Target           // of the new files
	files    []catalog.File             // have only the position deletes that name them
	listed   map[string]catalog.Deletes // by location, for files for which dropOthersDeletes dropped deletes: all deletes of the file
	read     *catalog.Table             // with the name that users give it
	columns  []catalog.Field            // to read, including row lineage
	selected compact.FileSelection
	sets     []compact.RewriteSet
	change   commit.Change
}

// next returns the next group of files to rewrite, given the table's state.
func (c *compacting) next(ctx context.Context, state *commit.TableState) (_ *compactGroup, err error) {
	if c.request.DryRun { // a dry run fails where the call would fail
		if _, err := c.tables.FileStore(ctx, c.name, state.DataFolder()); err != nil {
			return nil, err
		}
	}
	g := &compactGroup{compacting: c}
	if err := g.prepare(state); err != nil || !state.Table.HasSnapshot() {
		return g, err
	}
	if g.files, err = c.tables.Files(ctx, state.Table, catalog.FieldIDs(g.columns), nil); err != nil {
		return nil, err
	}
	chosen, err := choosePartitions(state, c.request.Partition)
	if err == nil && c.result.Commits == 0 {
		err = chosen.missing(g.files)
	}
	if err != nil {
		return nil, err
	}
	if err := g.dropOthersDeletes(ctx, chosen); err != nil {
		return nil, err
	}
	lacked, err := lackedColumns(ctx, c.tables, state.Table, g.files)
	if err != nil {
		return nil, err
	}
	err = g.choose(ctx, compact.Options{
		MinFiles: c.request.MinFiles, FileBytes: c.options.Rows.FileBytes, SetBytes: max(groupBytes, c.options.Rows.FileBytes), AnyOrder: c.request.AnyOrder,
		Leave: func(f catalog.File) bool { return c.made[f.Location] || !chosen.has(f) || len(lacked[f.Location]) > 0 },
	})
	return g, err
}

// prepare determines how new files are written. Their rows have all columns of the table, and row
// ids.
func (g *compactGroup) prepare(state *commit.TableState) error {
	table := *state.Table
	table.Name = g.request.Table
	g.read, g.columns = &table, slices.Concat(table.Fields, table.Lineage)
	for _, f := range table.Fields {
		if f.Type.ID() == arrow.NULL {
			return fault.New(fault.Invalid, "column %s of table %s is of a type that this version does not serve, and cannot be rewritten", f.Name, table.Name).
				In(table.Name, "").WithRemedy("compact the table with another program")
		}
	}
	g.token, g.rows = commit.NewToken(g.options.Clock(), ""), datafile.NewCall(g.options.Rows, g.progress)
	target, err := datafile.Match(table.Schema(), state, datafile.MatchOptions{Key: g.request.Key, Lineage: table.Lineage})
	g.target = target
	return err
}

// progress reports the progress of the group plus that of the groups before it.
func (g *compactGroup) progress(at datafile.Progress) {
	if g.request.Progress == nil {
		return
	}
	r := g.result
	at.RowsRead, at.OfRowsRead = at.RowsRead+r.Rows, g.allRows
	at.RowsWritten, at.OfRowsWritten = at.RowsWritten+r.Rows-r.Deleted, g.allRows-r.Deleted
	at.Bytes += r.BytesWritten
	g.request.Progress(CompactionProgress{Done: r.Files, All: g.all, Progress: at})
}

// layout returns the layout of new files.
func (g *compactGroup) layout() compact.TableLayout {
	t := g.target
	out := compact.TableLayout{Specs: t.State.Table.Specs, Spec: t.State.Spec, Order: t.SortOrder}
	for _, at := range t.Layout.Key {
		out.Key = append(out.Key, t.FieldID(at))
	}
	for _, by := range t.Layout.Sort {
		out.Sort = append(out.Sort, t.FieldID(by.Column))
	}
	folder := t.State.DataFolder()
	out.Folder = func(partition []any) string { return folder + t.Path(partition) }
	return out
}

// rewrite writes the rows of the group to new files. If it fails, it discards the files.
func (g *compactGroup) rewrite(ctx context.Context) (*datafile.Files, error) {
	sorted, err := g.sort(ctx)
	if err != nil {
		return nil, err
	}
	defer sorted.Release()
	folder := g.target.State.DataFolder()
	store, err := g.tables.FileStore(ctx, g.name, folder)
	if err != nil {
		return nil, err
	}
	files := g.rows.NewFiles(store, folder, g.token, false)
	if err := files.Write(ctx, g.target, sorted); err != nil {
		files.Discard(ctx)
		return nil, err
	}
	return files, nil
}

// count adds the commit of the group to the result.
func (c *compacting) count(made commit.Committed) {
	r, g := &c.result, c.group
	for _, f := range g.change.Add {
		c.made[f.Location] = true
	}
	r.Snapshot, r.Commits = made.Snapshot, r.Commits+1
	r.Files, r.Deletes, r.Deleted = r.Files+len(g.change.Remove), r.Deletes+len(g.change.RemoveDeletes), r.Deleted+g.change.DroppedRows
	for _, set := range g.sets {
		r.Bytes, r.Rows = r.Bytes+set.Bytes(), r.Rows+set.Rows()
	}
	at := g.rows.Progress()
	r.FilesWritten, r.BytesWritten = r.FilesWritten+at.Files, r.BytesWritten+at.Bytes
}

// sort reads the rows that are not deleted, in the order in which they were written, and sorts them.
func (g *compactGroup) sort(ctx context.Context) (*extsort.Sorted, error) {
	source := plan.Source{Table: g.read, Planned: catalog.FieldIDs(g.columns)}
	for _, set := range g.sets {
		for _, f := range set.Files {
			source.Files = append(source.Files, plan.FileRange{File: f, To: f.Rows})
		}
	}
	rows, err := g.options.Read(ctx, source, g.columns)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	return g.rows.Sort(ctx, g.target, rows, datafile.SortOptions{})
}
