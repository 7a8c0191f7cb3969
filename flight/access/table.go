package access

import (
	"slices"
	"strconv"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// TableAccess is a caller's level of access to a table's metadata.
type TableAccess int

// The kinds of access.
const (
	HiddenTable TableAccess = iota // for the caller, the table does not exist
	NamedTable                     // its name and its partition fields: the caller may read a part of it
	WholeTable                     // its snapshots and counts too
)

// TableAccess returns the caller's access to a table's metadata. A caller may see the snapshots of
// tables that it may write to. If it may call explain and nothing is withheld, it may also see
// those of tables for which it may send datasets, and of tables of datasets that it may read.
func (g *Guard) TableAccess(c *call.Call, table string) TableAccess {
	now, who := g.Policy(), c.Caller
	for _, what := range policy.Actions() {
		if what.Writes() && now.Write(who, table, what) {
			return WholeTable
		}
	}
	out := HiddenTable
	if rights, may := now.Inline(who, dataset.Dataset{Training: dataset.Training{Table: table}}); may {
		if out = NamedTable; rights.Of(table).IsZero() && rights.May(policy.Explain) {
			return WholeTable
		}
	}
	for _, d := range g.Datasets() {
		rights, may := now.Read(who, d.Name)
		if !may || !now.Has(d, table) {
			continue
		}
		if out = NamedTable; !rights.Limits(d) && rights.May(policy.Explain) {
			return WholeTable
		}
	}
	return out
}

// PermitHistory returns an error unless the caller may see the snapshots of a table. For a table
// that the caller may not read at all, it is the same whether or not the table exists.
func (g *Guard) PermitHistory(c *call.Call, table string) error {
	c.Note.Table(table)
	switch g.TableAccess(c, table) {
	case WholeTable:
		return nil
	case NamedTable:
		return fault.New(fault.Forbidden, "the snapshots of table %s would show more of it than this client may read", fault.Shorten(table, call.MaxName)).
			WithRemedy("use a token of a client that may read all of it, and call explain")
	case HiddenTable:
	}
	c.Note.Hides()
	return unreadableTable(table)
}

// PermitDiff returns an error unless the caller may compare snapshots of a table. The result shows
// keys of any row of any snapshot. So the caller needs the rights to see the snapshots of the table,
// to read all of its rows and columns, and to call verify, which shows keys, too.
func (g *Guard) PermitDiff(c *call.Call, table string) error {
	if err := g.Audit.Err(); err != nil {
		return NotAudited(err)
	}
	if err := g.PermitHistory(c, table); err != nil {
		return err
	}
	now, who := g.Policy(), c.Caller
	if rights, may := now.Inline(who, dataset.Dataset{Training: dataset.Training{Table: table}}); may && rights.Of(table).IsZero() && rights.May(policy.Verify) {
		return nil
	}
	for _, d := range g.Datasets() {
		rights, may := now.Read(who, d.Name)
		if may && !rights.Limits(d) && rights.May(policy.Verify) && readsAll(d, false, g.sameTable(table)) {
			return nil
		}
	}
	return fault.New(fault.Forbidden, "a comparison of snapshots of table %s would show keys of rows that this client may not read", fault.Shorten(table, call.MaxName)).
		WithRemedy("use a token of a client that may call verify, and that may send datasets of this table or read a dataset that has all of its rows and columns")
}

// PermitStats returns the caller's rights to a table whose statistics it requests, at a snapshot and against another one;
// "" is that of main. The result has values of all rows. So the caller needs the right to send datasets of the table, or a dataset that has
// all of its rows and columns. In both cases, the caller's rights must not limit its rows. Columns may be withheld. To name a branch, a
// tag or a time, the caller also needs the rights to see the snapshots of the table.
func (g *Guard) PermitStats(c *call.Call, table string, at ...string) (Grant, error) {
	if err := g.Audit.Err(); err != nil {
		return Grant{}, NotAudited(err)
	}
	c.Note.Table(table)
	grants, reads := g.statsGrants(c, table)
	switch {
	case len(grants) > 0:
	case reads:
		return Grant{}, fault.New(fault.Forbidden, "the statistics of table %s would show rows that this client may not read", fault.Shorten(table, call.MaxName)).
			WithRemedy("name a dataset that has the table; or use a token of a client that may read a dataset that has all rows of the table's main")
	default:
		c.Note.Hides()
		return Grant{}, unreadableTable(table)
	}
	for _, text := range at {
		if _, err := strconv.ParseInt(text, 10, 64); err == nil || text == "" {
			continue
		}
		if err := g.PermitHistory(c, table); err != nil {
			return Grant{}, err
		}
	}
	if i := slices.IndexFunc(grants, func(a Grant) bool { return !a.Limited }); i >= 0 {
		return grants[i], nil
	}
	return grants[0], nil
}

// statsGrants returns the grants of a caller that PermitStats accepts, and whether the caller may read any of the table.
func (g *Guard) statsGrants(c *call.Call, table string) (out []Grant, reads bool) {
	now, who := g.Policy(), c.Caller
	alone := dataset.Dataset{Training: dataset.Training{Table: table}}
	add := func(rights policy.Rights, query dataset.Query) {
		a := newGrant(c, rights, alone, query)
		a.Limited = len(rights.Others(nil)) > 0 // columns of the table may be promoted from other tables
		out = append(out, a)
	}
	if rights, may := now.Inline(who, alone); may {
		if reads = true; rights.Of(table).Filter.IsZero() {
			add(rights, dataset.Query{Rows: dataset.Rows{Inline: &alone}})
		}
	}
	for _, d := range g.Datasets() {
		rights, may := now.Read(who, d.Name)
		if !may || !now.Has(d, table) {
			continue
		}
		if reads = true; rights.Whole(d) && readsAll(d, true, g.sameTable(table)) {
			add(rights, dataset.Query{Rows: dataset.Rows{Dataset: d.Name}})
		}
	}
	return out, reads
}

// sameTable returns a function that reports whether a name is that of a table.
func (g *Guard) sameTable(table string) func(name string) bool {
	names := g.Policy().Names
	return func(name string) bool { return names.Full(name) == names.Full(table) }
}

// readsAll reports whether a dataset has all rows and columns of a table, at any ref or only at main.
func readsAll(d dataset.Dataset, onlyMain bool, same func(table string) bool) bool {
	d = d.Defaults()
	at := func(ref dataset.Ref) bool { return !onlyMain || ref == dataset.Ref{} }
	keepsAll := !slices.ContainsFunc(d.Staging, func(s dataset.Staging) bool { return !s.Join.KeepsAll() })
	if same(d.Training.Table) && d.Training.Filter.IsZero() && d.Training.Distinct == nil && keepsAll && at(d.Training.Ref) {
		return true
	}
	return slices.ContainsFunc(d.Staging, func(s dataset.Staging) bool {
		return same(s.Table) && s.Filter.IsZero() && s.Columns == nil && s.Join.Adds() && at(s.Ref)
	})
}

// unreadableTable is the error for a table that does not exist for the caller.
func unreadableTable(table string) error {
	return fault.New(fault.NotFound, "there is no table %s that this client may read", fault.Shorten(table, call.MaxName)).
		WithRemedy("list the tables: penstock tables")
}

// DisclosedTable returns a failure to read a table's metadata without the names of tables that the caller may not read.
func (g *Guard) DisclosedTable(c *call.Call, table string, err error) error {
	if err == nil || fault.KindOf(err) != fault.NotFound {
		return err
	}
	for _, f := range fault.As(err).Faults {
		if f.Field == "table" && f.Nearest != "" && g.TableAccess(c, f.Nearest) == HiddenTable {
			return unreadableTable(table)
		}
	}
	return err
}

// DisclosedName is DisclosedTable for the table that a failure is about.
func (g *Guard) DisclosedName(c *call.Call, err error) error {
	if err == nil {
		return nil
	}
	return g.DisclosedTable(c, fault.As(err).Table, err)
}

// DatasetsOf returns the names of the datasets that read a table and that the caller may read.
func (g *Guard) DatasetsOf(c *call.Call, table string) []string {
	out := []string{}
	for _, d := range g.Datasets() {
		if _, may := g.Policy().Read(c.Caller, d.Name); may && g.Policy().Has(d, table) {
			out = append(out, d.Name)
		}
	}
	slices.Sort(out)
	return out
}
