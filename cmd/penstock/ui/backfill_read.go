package ui

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
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
	if sameTable(now.Table, of.Table) {
		return out, fault.New(fault.Invalid, "table %s is the training table of dataset %s, and not a staging table", of.Table, dataset).
			WithRemedy("name a dataset that can join the table")
	}
	at := slices.IndexFunc(now.Staging, func(e coverage.Entry) bool { return e.Table == of.Table })
	if at < 0 {
		at = slices.IndexFunc(now.Staging, func(e coverage.Entry) bool { return sameTable(e.Table, of.Table) })
	}
	if at >= 0 {
		out.Entry, out.Own = now.Staging[at].Name, false
	}
	if out.Own {
		query["with"] = []map[string]string{{"table": of.Table, "name": ownEntry, "prefix": ownEntry + "_"}}
	}
	query["snapshots"] = map[string]any{"staging": map[string]any{out.Entry: map[string]int64{"snapshot": of.Head}}}
	out.text = jsontext.Of(query)
	return out, nil
}

// sameTable reports whether two names may be those of one table: one may begin with the name of the default catalog, which the other leaves out.
// If they are those of two tables, the server finds no snapshot of the branch in the other one, and refuses the query.
func sameTable(a, b string) bool {
	return a == b || withoutCatalog(a) == b || withoutCatalog(b) == a
}

// withoutCatalog returns a name of a table without its first part.
func withoutCatalog(table string) string {
	_, rest, _ := strings.Cut(table, ".")
	return rest
}
