package ui

import (
	"context"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/plan/coverage"
)

// Count counts the rows of queries, and those that match.
type Count interface {
	Coverage(ctx context.Context, query []byte) (coverage.Coverage, error)
	Verify(ctx context.Context, query []byte, report func(progress.Message)) (*loader.Verification, error)
}

// ownEntry is the name of the entry that joins a table which the dataset does not read.
const ownEntry = "penstock_backfill"

// branchQuery is a query of a dataset that reads a branch of a staging table.
type branchQuery struct {
	Dataset, Entry string
	Own            bool // the entry is not one of the dataset
	text           []byte
}

// branchQueryOf returns the query that reads the branch by the dataset's entry for its table. If the dataset has none, the query adds one.
func (p *pages) branchQueryOf(ctx context.Context, of *branchState, dataset string) (branchQuery, error) {
	out := branchQuery{Dataset: dataset, Entry: ownEntry, Own: true}
	query := map[string]any{"dataset": dataset}
	now, err := p.Count.Coverage(ctx, jsontext.Of(query))
	if err != nil {
		return out, err
	}
	for _, e := range now.Staging {
		if e.Table == of.Table {
			out.Entry, out.Own = e.Name, false
			break
		}
	}
	if out.Own {
		query["with"] = []map[string]string{{"table": of.Table, "name": ownEntry, "prefix": ownEntry + "_"}}
	}
	query["snapshots"] = map[string]any{"staging": map[string]any{out.Entry: map[string]int64{"snapshot": of.Head}}}
	out.text = jsontext.Of(query)
	return out, nil
}
