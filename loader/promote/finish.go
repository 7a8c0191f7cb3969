package promote

import (
	"context"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/transaction"
)

// finish rewrites the files that lack the new columns, checks the new values, and prepares the
// commit that makes the schema current. If another writer commits first, the next attempt also
// rewrites its files.
func (p *promoting) finish(ctx context.Context, a *transaction.Attempt) error {
	p.state = a.State
	if made, err := p.rewrite(ctx); made || err != nil {
		return err
	}
	if err := p.checkReaders(ctx); err != nil { // the datasets may have changed since, and the schema
		return err
	}
	schema, err := p.reserve(ctx) // other writers may have added columns since
	if err != nil {
		return err
	}
	if err := p.checks.matches(ctx, p.trainingTable, p.definition, false); err != nil {
		return err
	}
	if p.state.Table.HasSnapshot() {
		rows, err := p.checks.compare(ctx, p.trainingTable, p.definition, schema)
		p.result.Compared += rows
		if err != nil {
			return err
		}
	}
	move := commit.SchemaMove{Table: p.table, UUID: p.state.Table.Pin.UUID, From: p.state.Current, To: schema}
	if p.state.Table.HasSnapshot() {
		move.Head = p.state.Table.Pin.Snapshot
	}
	a.Commit = func(ctx context.Context) (commit.Committed, error) {
		err := p.tables.SetSchema(ctx, move)
		if err == nil {
			p.result.Before, p.result.Schema = p.state.Current, schema
		}
		return commit.Committed{}, err
	}
	return nil
}
