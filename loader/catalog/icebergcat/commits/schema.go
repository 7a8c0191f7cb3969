package commits

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
)

var _ commit.SchemaEditor = (*TableWriter)(nil)

// editing is one call that changes the schemas of a table.
type editing struct {
	writing
	uuid string
	// next returns the revision to send to the catalog, or nil if the table already has the wanted
	// schemas.
	next func(meta *metadata.Loaded) (*revision.Revision, error)
	// state returns a value that each attempt depends on. Once it has changed, an earlier attempt
	// can no longer be committed.
	state func(meta *metadata.Loaded) int64
}

// AddSchema adds a schema that is not current. See commit.SchemaEditor.
func (w *TableWriter) AddSchema(ctx context.Context, edit commit.SchemaEdit) (id int, err error) {
	if err := w.MayWrite(edit.Table); err != nil {
		return 0, err
	}
	if err := edit.Check(); err != nil {
		return 0, err
	}
	e := &editing{uuid: edit.UUID, state: func(meta *metadata.Loaded) int64 { return int64(meta.LastColumnID()) }}
	e.next = func(meta *metadata.Loaded) (*revision.Revision, error) {
		schema, r, err := revision.EditSchema(meta, edit)
		if err != nil || edit.DryRun {
			return nil, err
		}
		found := false
		if id, found, err = revision.EqualSchema(meta, schema, r.Text); found || err != nil {
			return nil, err
		}
		return &revision.Revision{Schema: r}, nil
	}
	e.source, e.table = w.source, edit.Table
	return id, fault.Op(w.run(ctx, e), "add a schema to table %s", edit.Table)
}

// SetSchema makes another schema current. See commit.SchemaEditor.
func (w *TableWriter) SetSchema(ctx context.Context, move commit.SchemaMove) error {
	if err := w.MayWrite(move.Table); err != nil {
		return err
	}
	if err := move.Check(); err != nil {
		return err
	}
	e := &editing{uuid: move.UUID, state: func(meta *metadata.Loaded) int64 {
		if setsFrom(meta, move) != nil {
			return -1
		}
		return int64(move.From)
	}}
	e.next = func(meta *metadata.Loaded) (*revision.Revision, error) {
		if meta.CurrentSchema().ID == move.To {
			return nil, nil
		}
		if err := setsFrom(meta, move); err != nil {
			return nil, err
		}
		to, ok := meta.SchemaByID(move.To)
		if !ok {
			return nil, fault.New(fault.Conflict, "table %s has no schema %d: it may have been removed along with expired snapshots", meta.Name, move.To).In(meta.Name, "").
				WithRemedy("add the schema again")
		}
		if err := revision.MayUse(meta, to); err != nil {
			return nil, err
		}
		return &revision.Revision{From: move.Head, Schema: &revision.Schema{ID: move.To, LastColumn: meta.LastColumnID(), Current: true}}, nil
	}
	e.source, e.table = w.source, move.Table
	return fault.Op(w.run(ctx, e), "set the schema of table %s", move.Table)
}

// setsFrom returns Conflict if schema move.From is not current, or main is not at move.Head.
func setsFrom(m *metadata.Loaded, move commit.SchemaMove) error {
	if at := m.CurrentSchema().ID; at != move.From {
		return fault.New(fault.Conflict, "schema %d of table %s is current, not schema %d", at, m.Name, move.From).In(m.Name, "").
			WithRemedy("look at the table's current schema, and decide again")
	}
	at, err := m.At(commit.Main)
	if err == nil && move.Head != 0 && at != move.Head {
		err = fault.New(fault.Conflict, "%s of table %s is at %s, not at %s", commit.Main, m.Name, metadata.SnapshotName(at), metadata.SnapshotName(move.Head)).In(m.Name, "").
			WithRemedy("look at the table's current state, and decide again")
	}
	return err
}

// run makes attempts until the table has the wanted schemas.
func (w *TableWriter) run(ctx context.Context, e *editing) error {
	ctx, done, err := w.takeTurn(ctx, e.table)
	if err != nil {
		return err
	}
	defer done()
	return e.repeat(ctx, "the schemas of table "+e.table+" were not changed", e.once)
}

// once makes one attempt. It returns true if the table has the wanted schemas. After a commit, it
// returns false, and the next attempt looks at the table: only then is the id of an added schema
// known, because the catalog chooses it.
func (e *editing) once(ctx context.Context) (bool, error) {
	held := e.source.Hold(e.table)
	defer held.Release()
	meta, err := e.source.Load(ctx, e.table, held)
	if err != nil {
		return false, err
	}
	e.last = meta
	if uuid := meta.TableUUID().String(); e.uuid != "" && uuid != e.uuid {
		return false, catalog.RecreatedTable(e.table, e.uuid, uuid)
	}
	if err := meta.Servable(); err != nil {
		return false, err
	}
	if err := meta.KnowsTypes(); err != nil {
		return false, err
	}
	e.settle(e.state(meta))
	r, err := e.next(meta)
	if err != nil {
		return false, err
	}
	if r == nil {
		e.moved(meta)
		return true, nil
	}
	if e.refused != nil && e.at == state(meta) {
		return false, e.refused
	}
	a := e.begin(e.state(meta))
	outcome, err := e.send(ctx, meta, a, *r)
	_, err = e.outcome(meta, a, outcome, err)
	return false, err
}
