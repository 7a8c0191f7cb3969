package explain

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Text describes in full what a query reads, in which order and why, and what its steps cost. It
// lists splits and lanes; Summary only counts them.
func Text(p *plan.Plan, q dataset.Query, sizes *plan.ColumnSizes) string {
	var b strings.Builder
	writePlan(&b, p, sizes, needsOf(p, q))
	writeComputed(&b, p, q)
	writeFitted(&b, p, q)
	writeMixing(&b, p, q)
	counts, of := countsFirst(p, q), int64(q.Every.Of)
	if !counts && of <= 1 {
		return b.String()
	}
	b.WriteString("\nsteps\n")
	if counts {
		fmt.Fprintf(&b, "  rows are counted first, as %s: keys, deletes and filter columns are read of %s, unless the counts are remembered\n",
			p.Inexact, strings.Join(countedFrom(p), ", "))
	}
	if of > 1 {
		bytes := p.TrainingBytes()
		fmt.Fprintf(&b, "  every %d: %d DataLoader workers take turns, from step %d on. A stream skips ranges from which it returns no row, if the plan knows them; otherwise each stream reads the training files of the shard: up to %s in all, %s of it more than once unless a cache shares it. Streams that are open at the same time share staging rows\n",
			of, of, q.Every.Step, fault.Size(of*bytes), fault.Size((of-1)*bytes))
	}
	return b.String()
}

// needsOf is like plan.Bound.Needs, for a query. If the query selects columns that the plan does
// not have, all entries count as needed.
func needsOf(p *plan.Plan, q dataset.Query) []bool {
	outputs, err := p.Relation.Choose(q.Selection())
	if err != nil {
		outputs = p.Relation.Outputs
	}
	return p.Needs(outputs)
}

// countedTables names the staging tables that change the number of rows of a plan.
func countedTables(p *plan.Plan) []string {
	var names []string
	for i, s := range p.Relation.Staging {
		if s.Counted(resolve.Asks(p.PostJoinColumns, i)) {
			names = append(names, s.Name)
		}
	}
	return names
}

// writeDeletes describes which delete files are read for some files.
func writeDeletes(b *strings.Builder, files []catalog.File) {
	uses := plan.DeletesOf(files)
	if len(uses) == 0 {
		return
	}
	fmt.Fprintf(b, "  deletes: %s, %s\n", strings.Join(uses.Texts(), ", "), fault.Size(uses.Bytes()))
}
