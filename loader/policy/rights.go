package policy

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// Seen is an error that only contains what the client may read.
type Seen struct{ error }

// AsSeen marks an error, which may be nil.
func AsSeen(err error) error {
	if err == nil {
		return nil
	}
	return Seen{err}
}

// Unwrap returns the error.
func (s Seen) Unwrap() error { return s.error }

// Rights are what a client may read of a dataset, and which actions are allowed on it. The zero
// value allows everything. If a client may not read a dataset at all, Policy returns false instead
// of Rights.
type Rights struct {
	names  Names
	allow  []Permission
	tables map[string]TableLimits // by full name in lower case
	bound  bool                   // whether a rule limits the actions to those in allow
}

// rights returns the rights that a rule gives.
func (p *Policy) rights(r AccessRule) Rights {
	out := Rights{names: p.Names, allow: r.Allow, bound: true, tables: map[string]TableLimits{}}
	for _, t := range r.Tables {
		out.tables[out.key(t.Name)] = t
	}
	return out
}

// key returns a table's key in Rights.tables. It is in lower case, because some catalogs ignore
// case: a client must not avoid the limits of a table by writing its name in another case.
func (r Rights) key(table string) string { return strings.ToLower(r.names.Full(table)) }

// Of returns the limits of a table that a dataset names.
func (r Rights) Of(table string) TableLimits { return r.tables[r.key(table)] }

// Others returns the tables with limits whose names are not among the given ones. A catalog may know such a table by one
// of these names too, as table@branch, for example.
func (r Rights) Others(names []string) []string {
	var out []string
	for key, limits := range r.tables {
		if !limits.IsZero() && !slices.ContainsFunc(names, func(name string) bool { return r.key(name) == key }) {
			out = append(out, limits.Name)
		}
	}
	slices.Sort(out)
	return out
}

// May reports whether an action is allowed on the dataset.
func (r Rights) May(action Permission) bool { return !r.bound || slices.Contains(r.allow, action) }

// Limits reports whether columns or rows of a dataset may not be read.
func (r Rights) Limits(d dataset.Dataset) bool {
	return slices.ContainsFunc(tablesOf(d), func(table string) bool { return !r.Of(table).IsZero() })
}

// Whole reports whether all rows of a dataset may be read. Columns may be withheld.
func (r Rights) Whole(d dataset.Dataset) bool {
	return !slices.ContainsFunc(tablesOf(d), func(table string) bool { return !r.Of(table).Filter.IsZero() })
}

// Filtered returns the dataset with the filters of the rights added to its own filters. The result
// is thus a different dataset wherever rows matter: in plans, build sides and cursors.
func (r Rights) Filtered(d dataset.Dataset) dataset.Dataset {
	d.Training.Filter = d.Training.Filter.And(r.Of(d.Training.Table).Filter)
	d.Staging = slices.Clone(d.Staging)
	for i, s := range d.Staging {
		d.Staging[i].Filter = s.Filter.And(r.Of(s.Table).Filter)
	}
	return d
}
