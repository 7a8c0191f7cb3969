// Package proposal proposes datasets for the tables of a catalog, and writes them as a config
// file.
//
// It reads only metadata. It derives datasets from the names and buckets of tables. It proposes the
// datasets that can be planned, and lists the others with the reason. WithoutSecrets replaces
// secrets by references to environment variables, so that the file contains no secrets.
package proposal

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Catalog is the catalog whose tables are surveyed.
type Catalog interface {
	catalog.Catalog
	List(ctx context.Context) ([]string, error)
}

// Planner plans queries. *loader.Loader is a Planner.
type Planner interface {
	Plan(ctx context.Context, query dataset.Query) (loader.Planned, error)
}

// Proposal is the datasets proposed for the tables of a catalog.
type Proposal struct {
	Tables   []string // names of all tables of the catalog
	Datasets []dataset.Dataset

	known   map[string]*catalog.Table
	rows    map[string]int64 // the numbers of rows by table; only for tables whose rows were counted
	skipped []string         // texts that name the omitted tables and datasets, with the reasons
}

const (
	maxSurveyed = 2000 // the maximum number of tables whose metadata is read
	maxAlone    = 20   // the maximum number of datasets that have only one table
	maxComment  = 300  // the maximum number of characters of a comment
)

// Survey reads the metadata of a catalog's tables, and proposes datasets.
func Survey(ctx context.Context, of Catalog, planner Planner) (*Proposal, error) {
	names, err := of.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fault.New(fault.NotFound, "the catalog has no tables").
			WithRemedy("check its properties: name is the catalog's name in its database, warehouse is sent to its server")
	}
	p := &Proposal{Tables: names, known: map[string]*catalog.Table{}, rows: map[string]int64{}}
	var tables []*catalog.Table
	for i, name := range names {
		if i == maxSurveyed {
			p.skipped = append(p.skipped, fmt.Sprintf("%s and all tables after it: there are more than %d", name, maxSurveyed))
			break
		}
		if strings.ContainsFunc(name, isUnnameable) {
			p.skipped = append(p.skipped, name+": a dataset cannot name it: it has blanks, quotes or control characters")
			continue
		}
		t, err := of.Table(ctx, name, dataset.Ref{})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			p.skipped = append(p.skipped, name+": "+oneLine(err))
			continue
		}
		p.known[name] = t
		if !t.HasSnapshot() {
			p.skipped = append(p.skipped, name+": it is empty")
			continue
		}
		tables = append(tables, t)
	}
	p.Datasets = resolve.Propose(tables, func(t *catalog.Table) int64 { return p.count(ctx, of, t) })
	if len(p.Datasets) == 0 {
		p.Datasets = alone(tables)
	}
	return p, p.keepPlannable(ctx, planner)
}

// LeftOut returns texts that name the omitted tables and datasets, with the reasons.
func (p *Proposal) LeftOut() []string { return p.skipped }

// isUnnameable reports whether datasets cannot refer to tables whose names contain the character r.
func isUnnameable(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '`' }

// count returns the sum of the numbers of rows in a table's data files, or 0 if the files cannot be
// listed.
func (p *Proposal) count(ctx context.Context, of catalog.Catalog, t *catalog.Table) int64 {
	if rows, ok := p.rows[t.Name]; ok {
		return rows
	}
	rows := int64(0)
	files, err := of.Files(ctx, t, nil, nil)
	if err == nil {
		for _, f := range files {
			rows += f.Rows
		}
	}
	p.rows[t.Name] = rows
	return rows
}

// alone returns a dataset for each of the first maxAlone tables. These datasets have only a
// training table.
func alone(tables []*catalog.Table) []dataset.Dataset {
	var out []dataset.Dataset
	for _, t := range tables[:min(len(tables), maxAlone)] {
		out = append(out, dataset.Dataset{Name: strings.ReplaceAll(t.Name, ".", "_"), Training: dataset.Training{Table: t.Name}})
	}
	return out
}

// keepPlannable removes the datasets that cannot be planned.
func (p *Proposal) keepPlannable(ctx context.Context, planner Planner) error {
	var kept []dataset.Dataset
	for _, d := range p.Datasets {
		_, err := planner.Plan(ctx, dataset.Query{Rows: dataset.Rows{Inline: new(d.Defaults())}})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.skipped = append(p.skipped, "dataset "+d.Name+": "+oneLine(err))
			continue
		}
		kept = append(kept, d)
	}
	p.Datasets = kept
	return nil
}

// oneLine returns an error as one line for a comment.
func oneLine(err error) string {
	return cutText(strings.Join(strings.Fields(fault.Redact(fault.As(err).Error())), " "))
}

// cutText truncates a text to maxComment characters.
func cutText(text string) string {
	if runes := []rune(text); len(runes) > maxComment {
		return string(runes[:maxComment]) + " …"
	}
	return text
}
