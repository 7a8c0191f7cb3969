package commits

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/column"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/dataset"
)

// State returns the state of a table from which a change is derived. See commit.Committer.
func (w *TableWriter) State(ctx context.Context, table, branch string) (*commit.TableState, error) {
	held := w.source.Hold(table)
	defer held.Release()
	meta, err := w.source.Load(ctx, table, held)
	if err != nil {
		return nil, err
	}
	if err := meta.Changeable(); err != nil {
		return nil, err
	}
	if branch == "" {
		branch = commit.Main
	}
	if _, err := meta.Head(branch); err != nil {
		return nil, err
	}
	pin, err := meta.Resolve(dataset.Ref{Name: branch})
	if err != nil {
		return nil, err
	}
	_, schema, err := meta.Check(pin)
	if err != nil {
		return nil, err
	}
	if pin, err = meta.Mapped(pin, schema); err != nil {
		return nil, err
	}
	t, err := w.source.TableAt(ctx, meta, pin)
	if err != nil {
		return nil, fault.Op(err, "read table %s", table)
	}
	var defaults []int
	for _, f := range schema.Fields() {
		if f.WriteDefault != nil {
			defaults = append(defaults, f.ID)
		}
	}
	schemas := make([]commit.TableSchema, len(meta.Schemas()))
	for i, s := range meta.Schemas() {
		schemas[i] = commit.TableSchema{ID: s.ID, Fields: column.Convert(s.Fields()), Docs: docs(s)}
	}
	return &commit.TableState{
		Schemas: schemas, Current: meta.CurrentSchema().ID,
		Table: t, Version: meta.Version(), Spec: meta.DefaultPartitionSpec(), SortOrder: meta.DefaultSortOrder(),
		LastColumn: meta.LastColumnID(), UUIDs: column.UUIDs(schema), WriteDefaults: defaults, Identifier: slices.Clone(schema.IdentifierFieldIDs), Properties: maps.Clone(meta.Properties()),
	}, nil
}

// Made looks for the snapshot of a branch that has a change, by the change's token and rows, and
// returns false if there is none. It uses only the fields Table, Branch, Token, Fresh and Rows of
// the change. It returns the errors of Commit: Conflict if the change was undone, is in another
// branch, or has rows of which some may have been removed since; and Expired if the change may have
// been made by a snapshot that no longer exists. Made writes nothing, but returns Forbidden for a
// table that may not be changed.
func (w *TableWriter) Made(ctx context.Context, change commit.Change) (commit.Committed, bool, error) {
	if err := w.MayWrite(change.Table); err != nil {
		return commit.Committed{}, false, err
	}
	held := w.source.Hold(change.Table)
	defer held.Release()
	meta, err := w.source.Load(ctx, change.Table, held)
	if err != nil {
		return commit.Committed{}, false, err
	}
	change.Branch = cmp.Or(change.Branch, commit.Main)
	head, err := meta.Head(change.Branch)
	if err != nil {
		return commit.Committed{}, false, err
	}
	p := &committing{change: change}
	p.source, p.table = w.source, change.Table
	found, err := p.find(meta, head)
	if found == nil || err != nil {
		return commit.Committed{}, false, fault.Op(err, "look for a change of table %s", change.Table)
	}
	out := p.result(found)
	out.Existed = true
	return out, true, nil
}

// FileStore returns a store that writes and removes data files of a table. It uses the credentials
// that the catalog grants for files in the folder, and refuses locations where files of the table
// may not be. The caller must use it only for files below the folder. The table need not exist yet
// if a change will create it (see commit.Change.Creates).
func (w *TableWriter) FileStore(ctx context.Context, table, folder string) (*store.Confined, error) {
	if err := w.MayWrite(table); err != nil {
		return nil, err
	}
	held := w.source.Hold(table)
	defer held.Release()
	uuid, prefixes := "", w.source.Prefixes
	meta, err := w.source.Load(ctx, table, held)
	_, ours := w.source.Locator.(locator.Swapper)
	switch {
	case err == nil:
		uuid, prefixes = meta.TableUUID().String(), meta.Prefixes
	case !ours || fault.KindOf(err) != fault.NotFound:
		return nil, err
	}
	files, err := w.source.Files.StoreIn(ctx, table, uuid, strings.TrimRight(folder, "/")+"/file")
	if err != nil {
		return nil, err
	}
	return store.Confine(files, prefixes), nil
}

// docs returns the documentation of a schema's columns by field id.
func docs(s *iceberg.Schema) map[int]string {
	out := map[int]string{}
	for _, f := range s.Fields() {
		if f.Doc != "" {
			out[f.ID] = f.Doc
		}
	}
	return out
}
