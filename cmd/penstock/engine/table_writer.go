package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/orphans"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/staged"
)

// At most one client call for each stageMemory bytes of the budget may write rows at the same time,
// and at most maxStages calls.
const (
	stageMemory = 64 << 20
	maxStages   = 8
)

// StageCalls returns how many client calls may write rows at the same time, for a memory budget in
// bytes.
func StageCalls(memory int64) int { return int(min(max(memory/stageMemory, 1), maxStages)) }

// TableWriter writes to the tables of an engine for the clients of a server.
type TableWriter struct {
	engine   *Engine
	stager   *stage.Stager
	rewriter *maintenance.Rewriter
}

// TableWriter returns a TableWriter for a number of concurrent calls.
func (e *Engine) TableWriter(calls int) TableWriter {
	return TableWriter{engine: e, stager: e.Stager(calls), rewriter: e.rewriter(calls)}
}

// Writable implements changes.TableWriter.
func (w TableWriter) Writable(table string) error {
	c, name, err := w.engine.Tables.catalogOf(table)
	if err != nil {
		return err
	}
	return c.MayWrite(name)
}

// Stage implements changes.TableWriter.
func (w TableWriter) Stage(ctx context.Context, request dataset.TableWrite, from access.WriteSources, progress func(datafile.Progress), rows array.RecordReader) (stage.WriteResult, error) {
	o := w.engine.stageOptions(request.Table, from.Shown)
	o.Progress = progress
	if request.OnlyKeysOf != "" {
		o.OnlyKeys = staged.Keys{Datasets: w.engine.Datasets(), Of: request.OnlyKeysOf, Staged: request.Table, Rights: from.KeysRights}.Read
	}
	if request.Like != "" {
		if err := w.engine.Loader.CheckName(ctx, from.LikeRights, request.Like); err != nil {
			return stage.WriteResult{}, err
		}
	}
	return w.stager.Stage(ctx, o, request, rows)
}

// CheckReaders implements changes.TableWriter.
func (w TableWriter) CheckReaders(ctx context.Context, made changes.CheckedChange, client changes.CheckingClient) []stage.ReaderCheck {
	change := staged.Change{
		Table: made.Table, Branch: made.Branch, Snapshot: made.Snapshot, Parent: made.Parent, Peer: client.Peer, Staged: made.Staged, BrokenRules: made.BrokenRules, Before: made.Before,
	}
	if client.Busy {
		return w.engine.Datasets().NotChecked(ctx, change, readersOf(client), "not measured: the server is busy")
	}
	return w.engine.Datasets().CheckReaders(ctx, change, readersOf(client))
}

// PlanReaders implements changes.TableWriter.
func (w TableWriter) PlanReaders(ctx context.Context, table string, client changes.CheckingClient) map[string]error {
	if client.Busy {
		return map[string]error{}
	}
	return w.engine.Datasets().PlanReaders(ctx, staged.Change{Table: table, Peer: client.Peer}, readersOf(client))
}

func readersOf(client changes.CheckingClient) []staged.Reader {
	var out []staged.Reader
	for _, r := range client.Readers {
		out = append(out, staged.Reader(r))
	}
	return out
}

// PlanReaders plans the datasets that read a table before a stage, on behalf of the operator.
func (e *Engine) PlanReaders(ctx context.Context, table string) map[string]error {
	datasets := e.Datasets()
	return datasets.PlanReaders(ctx, staged.Change{Table: table}, datasets.AllReaders())
}

// CheckReaders checks how the datasets read a table after a stage, on behalf of the operator. before
// has the result of PlanReaders before the stage.
func (e *Engine) CheckReaders(ctx context.Context, request dataset.TableWrite, made stage.WriteResult, before map[string]error) []stage.ReaderCheck {
	datasets := e.Datasets()
	change := staged.Change{Table: request.Table, Branch: request.Branch, Snapshot: made.Snapshot, Parent: made.Parent, Staged: true, BrokenRules: made.BrokenRules, Before: before}
	if made.Existed { // the change was made before the datasets were planned
		change.Before = nil
	}
	return datasets.CheckReaders(ctx, change, datasets.AllReaders())
}

// Publish implements changes.TableWriter.
func (w TableWriter) Publish(ctx context.Context, p changes.Publication) (move tablecommit.Move, checked []changes.CheckedLimits, err error) {
	tables, name, err := w.engine.Tables.writes(p.Table)
	if err != nil {
		return move, nil, err
	}
	request := p.Publication
	request.Table = name
	if p.DryRun {
		made := false
		if move, made, err = tables.Publishing(ctx, request); err == nil && !made && !p.NoCheck {
			checked = w.engine.publishedLimits(p)
		}
		return move, checked, fault.Op(err, "publish branch %s of table %s", p.Branch, p.Table)
	}
	check := func(ctx context.Context, move tablecommit.Move) (err error) {
		checked, err = w.engine.checkPublished(ctx, p, move)
		return err
	}
	if p.NoCheck {
		check = nil
	}
	move, err = tables.PublishChecked(ctx, request, check)
	return move, checked, err
}

// Undo implements changes.TableWriter.
func (w TableWriter) Undo(ctx context.Context, made tablecommit.Move) error {
	tables, name, err := w.engine.Tables.writes(made.Table)
	if err != nil {
		return err
	}
	made.Table = name
	return tables.Undo(ctx, made)
}

// Drop implements changes.TableWriter.
func (w TableWriter) Drop(ctx context.Context, request changes.TableDrop) (folder string, err error) {
	tables, name, err := w.engine.Tables.writes(request.Table)
	if err != nil {
		return "", err
	}
	if !request.Confirmed {
		return "", unconfirmed(request, w.engine.Datasets().Readers(request.Table, request.Shown))
	}
	return tables.DropNew(ctx, name, request.Snapshot)
}

// unconfirmed returns the error of a request to drop a table that the client has not confirmed. It
// names the datasets that read the table and that the client may read.
func unconfirmed(request changes.TableDrop, readers []stage.DatasetReader) error {
	var names []string
	for _, r := range readers {
		if r.Dataset != "" && !slices.Contains(names, r.Dataset) {
			names = append(names, r.Dataset)
		}
	}
	use := ""
	if len(names) > 0 {
		use = "; it is read by " + strings.Join(names, ", ")
	}
	return fault.New(fault.Conflict, "the change created table %s, so undo drops the table%s", request.Table, use).In(request.Table, "").
		WithRemedy("to drop the table, add --yes, or drop=True in Python; its data files stay")
}

// Compact implements changes.TableMaintenance.
func (w TableWriter) Compact(ctx context.Context, request maintenance.Compaction, shown func(string) bool) (maintenance.CompactionResult, error) {
	if request.AnyOrder {
		if err := w.engine.Datasets().CheckAnyOrder(request.Table, shown); err != nil {
			return maintenance.CompactionResult{}, err
		}
	}
	return w.rewriter.Compact(ctx, request)
}

// Restore implements changes.TableMaintenance.
func (w TableWriter) Restore(ctx context.Context, request maintenance.Restoration, unique bool, shown func(string) bool) (maintenance.RestorationResult, error) {
	if unique {
		readers := w.engine.Datasets().Readers(request.Table, shown)
		request.CheckKeys = func(ctx context.Context, r maintenance.RestoredFiles) error {
			return w.stager.CheckStored(ctx, readers, stage.StoredRows{Table: request.Table, State: r.State, Past: r.Past, Files: r.Restored, Removed: r.Removed})
		}
	}
	return w.rewriter.Restore(ctx, request)
}

// Clean implements changes.TableMaintenance.
func (w TableWriter) Clean(ctx context.Context, request changes.OrphanSearch) ([]orphans.TableOrphans, error) {
	tables := make([]orphans.SearchedTable, len(request.Tables))
	for i, table := range request.Tables {
		of, name, err := w.engine.Tables.catalogOf(table)
		if err != nil {
			return nil, err
		}
		tables[i] = orphans.SearchedTable{Catalog: searchable{of}, Name: name, Shown: table}
	}
	search := orphans.Search{Owned: tablecommit.Owned, Before: request.Before}
	return search.Clean(ctx, tables, request.Remove, request.Held, request.Progress)
}

// StageOptions returns the options of a call that stages rows to a table on behalf of the operator.
// The errors of such a call may name any dataset.
func (e *Engine) StageOptions(table string) stage.CallOptions {
	return e.stageOptions(table, func(string) bool { return true })
}

// stageOptions returns the options of a call that stages rows to a table. The errors of the call
// name only datasets for which shown returns true.
func (e *Engine) stageOptions(table string, shown func(dataset string) bool) stage.CallOptions {
	datasets := e.Datasets()
	return stage.CallOptions{
		Readers: datasets.Readers(table, shown),
		CheckAdded: func(ctx context.Context, to *catalog.Table, added []catalog.Field) error {
			return datasets.CheckAdded(ctx, table, to, added, shown)
		},
	}
}

// Datasets returns the value that reports how the datasets of the engine use tables.
func (e *Engine) Datasets() staged.Datasets {
	return staged.Datasets{Loader: e.Loader, Same: e.Tables.Catalogs.Same, Budget: e.Budget}
}

// searchable adapts a catalog to orphans.SearchedTables.
type searchable struct{ *icebergcat.Catalog }

// Folder implements orphans.SearchedTables.
func (s searchable) Folder(ctx context.Context, table string) (orphans.TableFolder, error) {
	state, err := s.State(ctx, table, "")
	if err != nil {
		return orphans.TableFolder{}, err
	}
	return orphans.TableFolder{UUID: state.Table.Pin.UUID, Location: state.Folder(), Elsewhere: state.FoldersElsewhere()}, nil
}

// Files implements orphans.SearchedTables.
func (s searchable) Files(ctx context.Context, table, folder string) (orphans.Remover, error) {
	files, err := s.FileStore(ctx, table, folder)
	if err != nil {
		return nil, err
	}
	return files, nil
}
