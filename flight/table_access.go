package flight

import (
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// tableAccess is how much a caller may know of a table's metadata.
type tableAccess int

// The kinds of access.
const (
	hiddenTable tableAccess = iota // for the caller, the table does not exist
	namedTable                     // its name and its partition fields: the caller may read a part of it
	wholeTable                     // its snapshots and counts too
)

// tableAccess returns how much the caller may know of a table. It knows the snapshots of tables that it writes to, of tables that it
// may send datasets of, and of tables of datasets that it may read: of the latter two if it may call explain and nothing is withheld.
func (g *guard) tableAccess(c *call, table string) tableAccess {
	now, who := g.policy(), c.caller
	for _, what := range policy.Actions() {
		if what.Writes() && now.Write(who, table, what) {
			return wholeTable
		}
	}
	out := hiddenTable
	if rights, may := now.Inline(who, dataset.Dataset{Training: dataset.Training{Table: table}}); may {
		if out = namedTable; rights.Of(table).IsZero() && rights.May(policy.Explain) {
			return wholeTable
		}
	}
	for _, d := range g.datasets() {
		rights, may := now.Read(who, d.Name)
		if !may || !now.Has(d, table) {
			continue
		}
		if out = namedTable; !rights.Limits(d) && rights.May(policy.Explain) {
			return wholeTable
		}
	}
	return out
}

// permitHistory returns an error unless the caller may know the snapshots of a table. For a table that the caller may not read at
// all, it is the same whether or not the table exists.
func (g *guard) permitHistory(c *call, table string) error {
	c.note.table(table)
	switch g.tableAccess(c, table) {
	case wholeTable:
		return nil
	case namedTable:
		return fault.New(fault.Forbidden, "the snapshots of table %s would show more of it than this client may read", fault.Shorten(table, maxAudited)).
			WithRemedy("use a token of a client that may read all of it, and call explain")
	case hiddenTable:
	}
	c.note.hides()
	return unreadableTable(table)
}

// unreadableTable is the error for a table that does not exist for the caller.
func unreadableTable(table string) error {
	return fault.New(fault.NotFound, "there is no table %s that this client may read", fault.Shorten(table, maxAudited)).
		WithRemedy("list the tables: penstock tables")
}

// disclosedTable returns a failure to read a table's metadata without the names of tables that the caller may not read.
func (g *guard) disclosedTable(c *call, table string, err error) error {
	if err == nil || fault.KindOf(err) != fault.NotFound {
		return err
	}
	for _, f := range fault.As(err).Faults {
		if f.Field == "table" && f.Nearest != "" && g.tableAccess(c, f.Nearest) == hiddenTable {
			return unreadableTable(table)
		}
	}
	return err
}

// datasetsOf returns the names of the datasets that read a table and that the caller may read.
func (g *guard) datasetsOf(c *call, table string) []string {
	out := []string{}
	for _, d := range g.datasets() {
		if _, may := g.policy().Read(c.caller, d.Name); may && g.policy().Has(d, table) {
			out = append(out, d.Name)
		}
	}
	slices.Sort(out)
	return out
}
