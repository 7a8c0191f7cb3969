package maintenance

import (
	"cmp"
	"context"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/compact"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/transaction"
)

// Restoration is a request to restore rows of a table.
type Restoration struct {
	Table  string
	Branch string // "" is main
	// Token names the change; see commit.NewToken. If it is "", the call makes a token, which the
	// result contains.
	Token string
	// Snapshot is the snapshot whose rows are restored. It need not be an ancestor of the branch.
	Snapshot int64
	// Partition selects partitions, as in Compaction. Without texts, the whole table is restored.
	Partition []string
	// CheckKeys returns an error if the restored rows repeat keys. It is called before files are
	// written, but only if some and not all partitions are restored. If it is nil, keys are not
	// checked.
	CheckKeys func(ctx context.Context, r RestoredFiles) error
	// DryRun writes nothing.
	DryRun bool
	// Progress is called from time to time; it may be nil.
	Progress func(datafile.Progress)
}

// RestoredFiles are the files that a restoration changes.
type RestoredFiles struct {
	State    *commit.TableState // the state of the branch
	Past     *catalog.Table     // the table at the snapshot, with the current schema
	Restored []catalog.File     // files of Past whose rows are restored
	Removed  []string           // locations of files that are removed from the branch
}

// RestorationResult describes what a restoration did, or what a dry run would do.
type RestorationResult struct {
	Token string `json:"token"`
	// Snapshot is the snapshot that has the rows; 0 for a dry run, and if there is nothing to change.
	Snapshot int64 `json:"snapshot,omitempty,string"`
	Parent   int64 `json:"parent,omitempty,string"` // the snapshot before Snapshot
	// Existed is true if an earlier call made the change. Then the counts are 0.
	Existed bool `json:"existed,omitempty"`
	// Copied is the number of files that are restored as unchanged copies, and Rewritten the number
	// of files that are restored without their deleted rows. Rows and Bytes count these files at
	// the snapshot, including deleted rows.
	Copied    int   `json:"copied"`
	Rewritten int   `json:"rewritten"`
	Rows      int64 `json:"rows"`
	Bytes     int64 `json:"bytes"`
	// Unchanged is the number of files that the branch still has unchanged.
	Unchanged int `json:"unchanged"`
	// Removed is the number of files that are removed from the branch.
	Removed int `json:"removed"`
}

// Restore restores the rows that partitions of a table had at a snapshot. It copies the snapshot's
// files to new names, because files with the old names are deleted when the snapshots that removed
// them expire. The copies omit rows that were deleted at the snapshot. The rows count as written by
// the restoration, in their original order.
//
// It returns the errors of stage.Stager.Stage, and Expired if the snapshot no longer exists.
func (r *Rewriter) Restore(ctx context.Context, request Restoration) (RestorationResult, error) {
	request.Branch = cmp.Or(request.Branch, commit.Main)
	request.Token = cmp.Or(request.Token, commit.NewToken(r.options.Clock(), ""))
	c := &restoring{options: r.options, request: request, result: RestorationResult{Token: request.Token}}
	err := commit.RepeatToken(c.run(ctx), request.Token)
	return c.result, fault.Op(err, "restore table %s", request.Table)
}

// restoring is one call of Restore.
type restoring struct {
	options Options
	request Restoration
	tables  Tables
	name    string // the table's name in its catalog
	result  RestorationResult
}

// run looks for the token, and restores the rows if no earlier call did.
func (c *restoring) run(ctx context.Context) (err error) {
	if c.tables, c.name, err = c.options.Route(c.request.Table); err != nil {
		return err
	}
	if err := commit.CheckToken(c.request.Token, c.options.Clock()); err != nil {
		return err
	}
	made, ok, err := c.tables.Made(ctx, commit.Change{Table: c.name, Branch: c.request.Branch, Token: c.request.Token})
	if err != nil {
		return err
	}
	if ok {
		c.result.Snapshot, c.result.Parent, c.result.Existed = made.Snapshot, made.Parent, true
		return nil
	}
	made, err = transaction.Transaction{Tables: c.tables, Table: c.name, Branch: c.request.Branch, Prepare: c.prepare}.Run(ctx)
	if err == nil {
		if made.Existed {
			c.result = RestorationResult{Token: c.request.Token} // the counts are 0, since an earlier call made the change
		}
		c.result.Snapshot, c.result.Parent, c.result.Existed = made.Snapshot, made.Parent, made.Existed
	}
	return err
}

// prepare writes the restored files of an attempt.
func (c *restoring) prepare(ctx context.Context, a *transaction.Attempt) error {
	o, err := c.compare(ctx, a.State)
	if err != nil {
		return err
	}
	c.result = RestorationResult{Token: c.request.Token, Unchanged: o.unchanged, Removed: len(o.removed)}
	for _, f := range o.restored {
		if c.result.Rows += f.Rows; f.Deletes.None() {
			c.result.Copied++
		} else {
			c.result.Rewritten++
		}
		c.result.Bytes += f.Bytes
	}
	if err := o.checkKeys(ctx); err != nil {
		return err
	}
	if c.request.DryRun || len(o.restored)+len(o.removed) == 0 {
		return nil
	}
	files, err := o.write(ctx)
	if err != nil {
		return err
	}
	a.Discard = files.Discard
	change := o.change(files.Added())
	a.Commit = func(ctx context.Context) (commit.Committed, error) { return c.tables.Commit(ctx, change) }
	return nil
}

// restoreAttempt is one attempt, with the files that it must change.
type restoreAttempt struct {
	*restoring
	state    *commit.TableState
	past     *catalog.Table
	restored []catalog.File // files of the snapshot to restore, in the order in which they were written
	removed  []catalog.File // files to remove from the branch
	present  []catalog.File // all files of the branch
	// unchanged is the number of files that stay.
	unchanged int
	rows      *datafile.Call   // sorts and writes the restored rows
	lacked    map[string][]int // by location of files to rewrite: the promoted columns that they lack
}

// compare compares the files of the snapshot and of the branch.
func (c *restoring) compare(ctx context.Context, state *commit.TableState) (o *restoreAttempt, err error) {
	o = &restoreAttempt{restoring: c, state: state}
	pin := state.Table.Pin
	if pin.Snapshot = c.request.Snapshot; pin.Snapshot <= 0 {
		return nil, fault.InvalidField("snapshot", "%d is not the id of a snapshot", pin.Snapshot).WithRemedy("name a snapshot of the table")
	}
	if o.past, err = c.tables.At(ctx, c.name, pin); fault.KindOf(err) == fault.Expired {
		if _, unknown := c.tables.Table(ctx, c.name, dataset.Ref{Snapshot: pin.Snapshot}); unknown != nil { // its remedy lists the snapshots
			err = fault.As(err).WithRemedy("%s", fault.As(unknown).Remedy)
		}
	}
	if err != nil {
		return nil, err
	}
	then, err := c.tables.Files(ctx, o.past, nil, nil)
	if err != nil {
		return nil, err
	}
	if state.Table.Pin.Snapshot != dataset.NoSnapshot {
		if o.present, err = c.tables.Files(ctx, state.Table, nil, nil); err != nil {
			return nil, err
		}
	}
	now := o.present
	if then, err = c.choose(state, then); err != nil {
		return nil, err
	}
	if now, err = c.choose(state, now); err != nil {
		return nil, err
	}
	if len(then)+len(now) == 0 && len(c.request.Partition) > 0 {
		return nil, fault.New(fault.NotFound, "table %s has no file in these partitions, neither at snapshot %d nor now", c.request.Table, c.request.Snapshot).
			In(c.request.Table, "").WithRemedy(partitionForms)
	}
	o.split(then, now)
	return o, o.checkColumns(ctx)
}

// checkKeys checks the keys of restored partitions. If the whole table is restored, no check is
// needed, because the table then has exactly the keys of the snapshot.
func (o *restoreAttempt) checkKeys(ctx context.Context) error {
	if o.request.CheckKeys == nil || len(o.request.Partition) == 0 || len(o.restored) == 0 {
		return nil
	}
	return o.request.CheckKeys(ctx, RestoredFiles{State: o.state, Past: o.past, Restored: o.restored, Removed: o.removedLocations()})
}

// checkColumns checks that files with deletes can be read, if there are any to restore.
func (o *restoreAttempt) checkColumns(ctx context.Context) error {
	if !slices.ContainsFunc(o.restored, func(f catalog.File) bool { return !f.Deletes.None() }) {
		return nil
	}
	_, err := o.tables.Files(ctx, o.past, catalog.FieldIDs(o.past.Fields), nil)
	return err
}

// choose returns the files in the selected partitions. It fails if a file's spec does not determine
// whether the file is selected.
func (c *restoring) choose(state *commit.TableState, files []catalog.File) ([]catalog.File, error) {
	chosen, err := choosePartitions(state, c.request.Partition)
	if err != nil {
		return nil, err
	}
	var out []catalog.File
	for _, f := range files {
		if !chosen.tells(f) {
			return nil, fault.New(fault.Invalid, "file %s of table %s is of an older partition spec that does not tell whether it is in the partition", f.Location, c.request.Table).
				In(c.request.Table, f.Location).WithRemedy("restore the whole table")
		}
		if chosen.has(f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// split finds the files to restore and to remove. Files that the branch still has with the same
// deletes stay, up to the first file that is missing or has other deletes. Later files are
// restored, because restored rows come after the rows of files that stay.
func (o *restoreAttempt) split(then, now []catalog.File) {
	then = slices.Clone(then)
	slices.SortFunc(then, compact.ByWritten)
	there := map[string]string{}
	for _, f := range now {
		there[f.Location] = deletesText(f)
	}
	stay := map[string]bool{}
	for _, f := range then {
		deletes, ok := there[f.Location]
		if !ok || deletes != deletesText(f) {
			break
		}
		stay[f.Location] = true
	}
	o.unchanged, o.restored = len(stay), then[len(stay):]
	for _, f := range now {
		if !stay[f.Location] {
			o.removed = append(o.removed, f)
		}
	}
}

// deletesText returns a text that identifies the deletes of a file.
func deletesText(f catalog.File) string {
	var text []byte
	for _, d := range f.Deletes.All(f.Sequence) {
		text = catalog.AppendPartition(text, []any{d.Location, d.Offset})
	}
	return string(text)
}

// change returns the change that replaces files of the branch with the restored files.
func (o *restoreAttempt) change(added []commit.DataFile) commit.Change {
	change := commit.Change{
		Table: o.name, UUID: o.state.Table.Pin.UUID, Branch: o.request.Branch, Token: o.request.Token, Mode: commit.Overwrite,
		Add: added, Base: o.state.Base(), Unmoved: true, RemoveDeletes: removableDeletes(o.present, o.removed),
		Summary: map[string]string{commit.SummaryCommand: "restore"},
	}
	change.Remove = o.removedLocations()
	return change
}

func (o *restoreAttempt) removedLocations() []string {
	var out []string
	for _, f := range o.removed {
		out = append(out, f.Location)
	}
	return out
}
