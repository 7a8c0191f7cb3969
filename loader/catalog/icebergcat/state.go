package icebergcat

import (
	"context"
	"maps"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
)

// State returns what a change of a table begins with. See commit.Committer.
func (c *Catalog) State(ctx context.Context, table, branch string) (*commit.TableState, error) {
	held := c.hold(table)
	defer held.Release()
	meta, err := c.load(ctx, table, held)
	if err != nil {
		return nil, err
	}
	if branch == "" {
		branch = commit.Main
	}
	if _, err := meta.head(branch); err != nil {
		return nil, err
	}
	pin, err := meta.resolve(dataset.Ref{Name: branch})
	if err != nil {
		return nil, err
	}
	_, schema, err := meta.check(pin)
	if err != nil {
		return nil, err
	}
	if pin, err = meta.mapped(pin, schema); err != nil {
		return nil, err
	}
	t, err := c.table(ctx, meta, pin)
	if err != nil {
		return nil, fault.Op(err, "read table %s", table)
	}
	return &commit.TableState{
		Table: t, Version: meta.Version(), Spec: meta.DefaultPartitionSpec(), SortOrder: meta.DefaultSortOrder(),
		LastColumn: meta.LastColumnID(), Properties: maps.Clone(meta.Properties()),
	}, nil
}
