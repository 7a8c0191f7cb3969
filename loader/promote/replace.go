package promote

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stream"
)

// Sizes of runs and of commits.
const (
	defaultRunRows = 1 << 20
	groupFiles     = 128
	groupsOfAll    = 32      // commits of a table with more files
	groupBytes     = 4 << 30 // of old files: what an interruption may lose
	// maxCommitTries is the number of attempts to commit files that others change meanwhile.
	maxCommitTries = 16
)

// SummaryPromotion is the entry of a snapshot's summary with the promotion that replaced its files.
const SummaryPromotion = "penstock.promotion"

// rewriteAll writes files with the new columns in place of some files, and commits them in groups.
func (p *promoting) rewriteAll(ctx context.Context, pending []catalog.File) error {
	files, err := p.tables.FileStore(ctx, p.table, p.state.DataFolder())
	if err != nil {
		return err
	}
	specs := map[int]map[string]bool{}
	for _, f := range pending {
		if specs[f.Spec] == nil {
			specs[f.Spec] = map[string]bool{}
		}
		specs[f.Spec][f.Location] = true
	}
	// The splits of one spec's buckets are not interrupted by those of another.
	for _, spec := range slices.Sorted(maps.Keys(specs)) {
		values, err := p.plan(ctx, func(f catalog.File) bool { return specs[spec][f.Location] })
		if err != nil {
			return err
		}
		r := &replacing{promoting: p, files: files, limit: cmp.Or(p.options.GroupFiles, max(groupFiles, len(pending)/groupsOfAll))}
		err = r.all(ctx, values)
		values.loader.DropKeptBuildSides()
		if err != nil {
			return err
		}
	}
	return nil
}

// replacing collects files that are written by several goroutines, and commits them in groups.
type replacing struct {
	*promoting
	files PromotedFiles
	limit int // files of a group

	mu    sync.Mutex
	group []rewritten
	bytes int64
}

// all writes the files of a plan.
func (r *replacing) all(ctx context.Context, values *valuePlan) error {
	runs, err := values.runs(r.options.RunRows)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.options.Threads)
	for _, run := range runs {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error { return r.run(groupCtx, values, run) })
	}
	err = group.Wait()
	if err == nil {
		return r.commit(ctx, r.group)
	}
	if !commit.Uncertain(err) && len(r.group) > 0 && ctx.Err() == nil {
		// What is complete is kept for the next call.
		_ = r.commit(ctx, r.group)
	} else if len(r.group) > 0 {
		discard(ctx, r.files, locationsOf(r.group))
	}
	return err
}

// run writes one run, and commits a group when it is large enough.
func (r *replacing) run(ctx context.Context, values *valuePlan, run splitRun) error {
	done, err := r.rewriteRun(ctx, values, r.files, run)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.group, r.bytes = append(r.group, done...), r.bytes+run.bytes
	if len(r.group) < r.limit && r.bytes < groupBytes {
		return nil
	}
	group := r.group
	r.group, r.bytes = nil, 0
	return r.commit(ctx, group)
}

func locationsOf(group []rewritten) []string {
	out := make([]string, len(group))
	for i, f := range group {
		out[i] = f.location
	}
	return out
}

// commit replaces the old files of a group. Files that were removed concurrently are skipped and their replacements deleted;
// concurrent deletes are carried over.
func (r *replacing) commit(ctx context.Context, group []rewritten) error {
	token := commit.NewToken(r.options.Clock(), "promote-"+r.definition.id+"-"+commit.AttemptName())
	var last error
	for range maxCommitTries {
		now, err := r.live(ctx, group)
		if err != nil {
			return err
		}
		discard(ctx, r.files, missing(group, now.files))
		if group = now.files; len(group) == 0 {
			return nil
		}
		change, deletes, err := r.change(ctx, now)
		var made commit.Committed
		if err == nil {
			change.Token = token
			made, err = r.tables.Commit(ctx, change)
		}
		switch {
		case err == nil:
			r.committed(group, made)
			return nil
		case commit.Uncertain(err):
			return err // the files may be the table's
		}
		discard(ctx, r.files, deletes)
		if last = err; fault.KindOf(err) != fault.Conflict {
			break
		}
	}
	discard(ctx, r.files, locationsOf(group))
	return last
}

// missing returns the new locations of the files of a group that are not in another one.
func missing(group, live []rewritten) []string {
	var out []string
	for _, f := range group {
		if !slices.ContainsFunc(live, func(l rewritten) bool { return l.location == f.location }) {
			out = append(out, f.location)
		}
	}
	return out
}

// liveGroup is the files of a group whose old files are in main, as they are there.
type liveGroup struct {
	files     []rewritten
	state     *commit.TableState
	locations map[string]bool // of all files of main
}

// live returns the files of a group whose old files are in main now.
func (r *replacing) live(ctx context.Context, group []rewritten) (out liveGroup, err error) {
	if out.state, err = r.tables.State(ctx, r.table, commit.Main); err != nil {
		return out, err
	}
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
	for _, f := range group {
		if old, ok := now[f.old.Location]; ok {
			f.old = old
			out.files = append(out.files, f)
		}
	}
	return out, nil
}

// change returns the change that replaces the old files of a group, and the locations of the delete files that were written
// for it, also after an error.
func (r *replacing) change(ctx context.Context, now liveGroup) (out commit.Change, deletes []string, err error) {
	t := now.state.Table
	out = commit.Change{
		Table: r.table, UUID: t.Pin.UUID, Mode: commit.Rewrite, Base: t.Pin.Snapshot,
		Summary: map[string]string{SummaryPromotion: r.definition.id},
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

// committed counts a commit. It moved rows, so what was found out about those of its parent holds for its own.
func (r *replacing) committed(group []rewritten, made commit.Committed) {
	if r.matchedAt != 0 && r.matchedAt == made.Parent {
		r.matchedAt = made.Snapshot
	}
	r.progress.update(func(now *PromotionProgress) { now.Commits++ })
	r.result.Commits++
	for _, f := range group {
		r.result.Files++
		r.result.Rows += f.made.Rows
		r.result.BytesCopied += f.old.Bytes
		r.result.BytesWritten += f.made.Bytes
	}
}

// count adds the counts of a stream to those of the entries.
func (p *promoting) count(of map[string]stream.StagingReport) {
	p.progress.mu.Lock()
	defer p.progress.mu.Unlock()
	for name, s := range of {
		sum := p.result.Matches[name]
		p.result.Matches[name] = MatchCounts{sum.Rows + s.Rows, sum.Matched + s.Matched}
	}
}
