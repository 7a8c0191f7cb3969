package promote

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stream"
	"github.com/penstock/penstock/loader/transaction"
)

// Sizes of runs and of commits.
const (
	runRows     = 1 << 20 // minimum rows of the consecutive files that are read as one stream
	groupFiles  = 128
	groupsOfAll = 32      // number of commits of a table with many files
	groupBytes  = 4 << 30 // bytes of old files per commit, which bound the work that an interruption loses
)

// rewriteAll replaces files by files with the new columns, and commits them in groups.
func (p *promoting) rewriteAll(ctx context.Context, pending []catalog.File) error {
	files, err := p.tables.FileStore(ctx, p.table, p.state.DataFolder())
	if err != nil {
		return err
	}
	specs := bySpec(pending)
	// Plan each spec separately, so that the splits of one spec's buckets do not interrupt those of
	// another.
	for _, spec := range slices.Sorted(maps.Keys(specs)) {
		values, err := p.plan(ctx, func(f catalog.File) bool { return specs[spec][f.Location] })
		if err != nil {
			return err
		}
		if err := p.checkSources(ctx, values, pending); err != nil {
			return err
		}
		r := &replacing{promoting: p, files: files, limit: max(p.groupFiles, len(pending)/groupsOfAll)}
		err = r.all(ctx, values)
		values.loader.DropKeptBuildSides()
		if err != nil {
			return err
		}
	}
	return nil
}

// bySpec returns the locations of files by their partition specs.
func bySpec(files []catalog.File) map[int]map[string]bool {
	out := map[int]map[string]bool{}
	for _, f := range files {
		if out[f.Spec] == nil {
			out[f.Spec] = map[string]bool{}
		}
		out[f.Spec][f.Location] = true
	}
	return out
}

// replacing commits files in groups while other goroutines write them. Only the committing
// goroutine uses it and the call's result.
type replacing struct {
	*promoting
	files PromotedFiles
	limit int         // files per group
	group []rewritten // complete but not committed
	bytes int64       // size of their old files
}

// all writes and commits the files of a plan.
func (r *replacing) all(ctx context.Context, values *valuePlan) error {
	runs, err := values.runs(r.runRows)
	if err != nil {
		return err
	}
	writing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	written := make(chan writtenRun)
	var writers errgroup.Group
	writers.Go(func() error {
		defer close(written)
		return r.writeRuns(writing, values, r.files, runs, written)
	})
	failed := r.commitRuns(ctx, written, stop)
	if err := cmp.Or(failed, writers.Wait()); err != nil {
		r.keepComplete(ctx, err)
		return err
	}
	return r.commit(ctx)
}

// writeRuns writes runs in several goroutines. The caller must receive until the channel is closed.
func (p *promoting) writeRuns(ctx context.Context, values *valuePlan, files PromotedFiles, runs []splitRun, written chan<- writtenRun) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(p.options.Threads)
	for _, run := range runs {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			done, err := p.rewriteRun(groupCtx, values, files, run)
			if err == nil {
				written <- done
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// commitRuns collects the files of written runs, and commits them when they fill a group. After an
// error it stops the writers.
func (r *replacing) commitRuns(ctx context.Context, written <-chan writtenRun, stop context.CancelCauseFunc) (failed error) {
	for run := range written {
		r.count(run.matches)
		for _, f := range run.files {
			r.group, r.bytes = append(r.group, f), r.bytes+f.old.Bytes
		}
		if failed != nil || len(r.group) < r.limit && r.bytes < groupBytes {
			continue
		}
		if failed = r.commit(ctx); failed != nil {
			stop(failed)
		}
	}
	return failed
}

// keepComplete commits the complete files of a failed call, so that the next call need not write
// them again. If it cannot commit them, it removes them.
func (r *replacing) keepComplete(ctx context.Context, failed error) {
	if !commit.Uncertain(failed) && ctx.Err() == nil {
		_ = r.commit(ctx)
		return
	}
	discard(ctx, r.files, locationsOf(r.group))
}

func locationsOf(group []rewritten) []string {
	out := make([]string, len(group))
	for i, f := range group {
		out[i] = f.location
	}
	return out
}

// commit replaces the old files of the group, and empties the group.
func (r *replacing) commit(ctx context.Context) error {
	if len(r.group) == 0 {
		return nil
	}
	if err := r.checkFilled(ctx); err != nil {
		discard(ctx, r.files, locationsOf(r.group))
		r.group, r.bytes = nil, 0
		return err
	}
	token := commit.NewToken(r.options.Clock(), "promote-"+r.definition.id+"-"+commit.AttemptName())
	made, err := transaction.Transaction{
		Tables: r.tables, Table: r.table, Branch: commit.Main,
		Prepare: func(ctx context.Context, a *transaction.Attempt) error { return r.prepareGroup(ctx, a, token) },
		Discard: func(ctx context.Context) { discard(ctx, r.files, locationsOf(r.group)) },
	}.Run(ctx)
	if err == nil && len(r.group) > 0 {
		r.committed(made)
	}
	r.group, r.bytes = nil, 0
	return err
}

// prepareGroup prepares the commit of the group. Files that were removed concurrently are skipped and their replacements
// deleted; concurrent deletes are carried over.
func (r *replacing) prepareGroup(ctx context.Context, a *transaction.Attempt, token string) error {
	now, err := r.live(ctx, a.State)
	if err != nil {
		return err
	}
	discard(ctx, r.files, missing(r.group, now.files))
	if r.group = now.files; len(r.group) == 0 {
		return nil
	}
	var deletes []string
	a.Discard = func(ctx context.Context) { discard(ctx, r.files, deletes) }
	var change commit.Change
	if change, deletes, err = r.change(ctx, now); err != nil {
		return err
	}
	change.Token = token
	a.Commit = func(ctx context.Context) (commit.Committed, error) { return r.tables.Commit(ctx, change) }
	return nil
}

// missing returns the new locations of the files in group that are not in live.
func missing(group, live []rewritten) []string {
	var out []string
	for _, f := range group {
		if !slices.ContainsFunc(live, func(l rewritten) bool { return l.location == f.location }) {
			out = append(out, f.location)
		}
	}
	return out
}

// liveGroup has the files of a group whose old files are still in main, with main's listing of the
// old files.
type liveGroup struct {
	files     []rewritten
	state     *commit.TableState
	locations map[string]bool // of all files of main
}

// live returns the files of the group whose old files are still in a state of main.
func (r *replacing) live(ctx context.Context, state *commit.TableState) (out liveGroup, err error) {
	out.state = state
	if uuid := out.state.Table.Pin.UUID; uuid != r.state.Table.Pin.UUID {
		return out, catalog.RecreatedTable(r.result.Table, r.state.Table.Pin.UUID, uuid)
	}
	t := *out.state.Table
	t.Name = r.result.Table
	files, err := r.options.Catalog.Files(ctx, &t, nil, nil)
	if err != nil {
		return out, err
	}
	out.locations = make(map[string]bool, len(files))
	now := make(map[string]catalog.File, len(files))
	for _, f := range files {
		now[f.Location], out.locations[f.Location] = f, true
	}
	for _, f := range r.group {
		if old, ok := now[f.old.Location]; ok {
			f.old = old
			out.files = append(out.files, f)
		}
	}
	return out, nil
}

// change returns the change that replaces the old files of a group, and the locations of the delete
// files written for it. It returns the locations even after an error.
func (r *replacing) change(ctx context.Context, now liveGroup) (out commit.Change, deletes []string, err error) {
	t := now.state.Table
	out = commit.Change{
		Table: r.table, UUID: t.Pin.UUID, Mode: commit.Rewrite, Base: t.Pin.Snapshot,
		Summary: map[string]string{commit.SummaryCommand: "promote", commit.SummaryPromotion: r.definition.id},
	}
	of := make(map[string]rewritten, len(now.files))
	for _, f := range now.files {
		of[f.old.Location] = f
	}
	described, err := r.tables.DataFiles(ctx, t, func(location string) bool { _, ok := of[location]; return ok })
	if err != nil {
		return out, nil, err
	}
	if len(described) != len(of) {
		return out, nil, fault.New(fault.Corrupt, "the manifests of table %s list %d of %d files, or one of them twice", r.result.Table, len(described), len(of)).
			In(r.result.Table, "").WithRemedy("repeat the call; if it fails again, roll the table back to an earlier snapshot")
	}
	for _, d := range described {
		out.Add, out.Remove = append(out.Add, describe(d, of[d.Location])), append(out.Remove, d.Location)
	}
	deletes, err = r.repoint(ctx, &out, now)
	return out, deletes, err
}

// committed counts the commit of the group. The commit only moved rows, so a check of its parent's
// rows holds for its own snapshot too.
func (r *replacing) committed(made commit.Committed) {
	if r.checks.matchedAt != 0 && r.checks.matchedAt == made.Parent {
		r.checks.matchedAt = made.Snapshot
	}
	r.progress.update(func(now *PromotionProgress) { now.Commits++ })
	r.result.Commits++
	for _, f := range r.group {
		r.countRows(f.old, f.location)
		r.result.BytesCopied += f.old.Bytes
		r.result.BytesWritten += f.made.Bytes
	}
}

// countRows counts the rows of a file that was or would be replaced. written is the location of its
// replacement, or of the file in a dry run. A file that gets the columns of several entries counts
// once, although it is replaced for each of them.
func (p *promoting) countRows(f catalog.File, written string) {
	if !p.counted[f.Location] {
		p.result.Files++
		p.result.Rows += f.Rows
	}
	if p.counted == nil {
		p.counted = map[string]bool{}
	}
	p.counted[written] = true
}

// count adds a run's match counts to the result.
func (p *promoting) count(of map[string]stream.StagingReport) {
	for name, s := range of {
		sum := p.result.Matches[name]
		p.result.Matches[name] = MatchCounts{sum.Rows + s.Rows, sum.Matched + s.Matched}
	}
}
