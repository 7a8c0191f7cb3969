package changes

import (
	"context"
	"time"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/orphans"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stage"
)

// TableMaintenance rewrites files of tables, and cleans their folders. It is safe for concurrent use.
type TableMaintenance interface {
	// Compact rewrites files of a table; see maintenance.Rewriter. Errors name only datasets for
	// which shown is true.
	Compact(ctx context.Context, request maintenance.Compaction, shown func(dataset string) bool) (maintenance.CompactionResult, error)
	// Restore restores rows of a table; see maintenance.Rewriter. If unique is true, partitions are
	// not restored if a dataset does not accept their keys. Errors name only datasets for which
	// shown is true.
	Restore(ctx context.Context, request maintenance.Restoration, unique bool, shown func(dataset string) bool) (maintenance.RestorationResult, error)
	// Clean finds orphan files and, if the search requests it, removes them; see orphans.Search.
	Clean(ctx context.Context, request OrphanSearch) ([]orphans.TableOrphans, error)
}

// OrphanSearch is a search for the orphan files of tables.
type OrphanSearch struct {
	Tables   []string
	Before   time.Time // the time before which they were last written
	Remove   bool
	Progress func(orphans.CleanProgress)
	Held     *budget.Reservation // of the memory of the result
}

func (w *Service) compact(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Compact(body)
	if err != nil {
		return nil, err
	}
	to.Wanted(asked.Progress)
	request := maintenance.Compaction{
		Table: asked.Table, Branch: asked.Branch, Partition: asked.Partition, Key: asked.Key, AnyOrder: asked.AnyOrder,
		MinFiles: asked.MinFiles, FileBytes: asked.FileSize, DryRun: asked.DryRun, Progress: compacting(to),
	}
	var out maintenance.CompactionResult
	err = w.change(ctx, c, tableChange{event: audit.Compact, needs: policy.Stage, tables: []string{asked.Table}}, len(body), func(ctx context.Context) error {
		ctx, entered := w.options.Budget.Enter(ctx, c.Client())
		defer entered.Release()
		out, err = w.options.Maintenance.Compact(ctx, request, func(dataset string) bool { return w.options.Guard.MayRead(c, dataset) })
		c.Note.Changed(out.Snapshot)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []any{out}, nil
}

// compacting returns a function that reports the progress of a compaction.
func compacting(to *progress.Sender) func(maintenance.CompactionProgress) {
	return func(at maintenance.CompactionProgress) {
		now := progress.OfWrite(at.Progress)
		now.Step, now.Files, now.OfFiles = "rewrite", int64(at.Done), int64(at.All)
		to.At(now)
	}
}

// Restored is the result of restore. Readers describes how datasets read the table after the change;
// nil if they were not checked.
type Restored struct {
	maintenance.RestorationResult
	Readers []stage.ReaderCheck `json:"readers,omitzero"`
}

func (w *Service) restore(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Restore(body)
	if err != nil {
		return nil, err
	}
	if asked.Token == "" {
		asked.Token = commit.NewToken(w.options.Clock(), "")
	}
	to.Wanted(asked.Progress)
	request := maintenance.Restoration{
		Table: asked.Table, Branch: asked.Branch, Token: asked.Token, Snapshot: asked.Snapshot, Partition: asked.Partition,
		DryRun: asked.DryRun, Progress: to.Writing,
	}
	var out Restored
	var before map[string]error
	err = w.change(ctx, c, tableChange{event: audit.Restore, needs: policy.Stage, tables: []string{asked.Table}, token: asked.Token}, len(body), func(ctx context.Context) error {
		ctx, entered := w.options.Budget.Enter(ctx, c.Client())
		defer entered.Release()
		if !asked.NoCheck && !asked.DryRun {
			before = w.planReaders(ctx, c, asked.Table)
		}
		out.RestorationResult, err = w.options.Maintenance.Restore(ctx, request, !asked.AllowDuplicates, func(dataset string) bool { return w.options.Guard.MayRead(c, dataset) })
		c.Note.Changed(out.Snapshot)
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.Snapshot != 0 && !asked.NoCheck {
		made := CheckedChange{Table: asked.Table, Branch: asked.Branch, Snapshot: out.Snapshot, Parent: out.Parent, Before: before}
		if out.Existed { // the change was made before the datasets were planned
			made.Before = nil
		}
		out.Readers = w.checkReaders(ctx, c, made)
	}
	return []any{out}, nil
}

func (w *Service) orphans(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Orphans(body)
	if err != nil {
		return nil, err
	}
	to.Wanted(asked.Progress)
	held, err := w.options.Budget.Reserve("the orphan files of tables", 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	var out []orphans.TableOrphans
	err = w.change(ctx, c, tableChange{event: audit.Orphans, needs: policy.Stage, tables: asked.Tables}, len(body), func(ctx context.Context) error {
		ctx, entered := w.options.Budget.Enter(ctx, c.Client())
		defer entered.Release()
		out, err = w.options.Maintenance.Clean(ctx, OrphanSearch{
			Tables: asked.Tables, Before: w.options.Clock().Add(-time.Duration(asked.OlderThan)), Remove: asked.Remove, Progress: cleaning(to), Held: held,
		})
		return err
	})
	var pages []any
	for _, page := range orphans.Pages(out) {
		pages = append(pages, []orphans.TableOrphans{page})
	}
	return pages, err
}

// cleaning returns a function that reports the progress of removing orphan files.
func cleaning(to *progress.Sender) func(orphans.CleanProgress) {
	return func(at orphans.CleanProgress) {
		now := progress.Message{Table: at.Table, Step: "search"}
		if at.Removing {
			now.Step = "remove"
			now.Counts = progress.Counts{Files: int64(at.Removed), OfFiles: int64(at.All), Bytes: at.Bytes, OfBytes: at.AllBytes}
		}
		to.At(now)
	}
}
