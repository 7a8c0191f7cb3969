package loader

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// checkNames returns Forbidden if one of the tables is a table that the client's rights limit, and
// the client named it differently than the policy does. The limits of a table are looked up by the
// table's name, so under another name they would not be found.
func (l *Loader) checkNames(ctx context.Context, rights policy.Rights, named []string, tables []*catalog.Table) error {
	if len(named) == 0 {
		return nil
	}
	for _, limited := range rights.Others(named) {
		t, err := l.options.Catalog.Table(ctx, limited, dataset.Ref{})
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil { // the error must not reveal which table failed
			return fault.New(fault.KindOf(err), "it cannot be checked which of the tables the client's rights limit").WithRemedy("try again")
		}
		for _, other := range tables {
			if sameTable(t, other) {
				return fault.New(fault.Forbidden, "this client may not send a dataset of these tables").
					WithRemedy("name each table as ListFlights and the server's operator do")
			}
		}
	}
	return nil
}

// CheckName returns Forbidden if the name is another name of a table that the client's rights
// limit, and not the name that the policy uses. It returns nil if the table does not exist.
func (l *Loader) CheckName(ctx context.Context, rights policy.Rights, name string) error {
	if len(rights.Others([]string{name})) == 0 {
		return nil
	}
	t, err := l.options.Catalog.Table(ctx, name, dataset.Ref{})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil
	case err != nil:
		return err
	}
	err = l.checkNames(ctx, rights, []string{name}, []*catalog.Table{t})
	if fault.KindOf(err) == fault.Forbidden {
		return fault.New(fault.Forbidden, "this client may not read all of table %s", name).WithRemedy("name another table, as the server's operator does")
	}
	return err
}

// sameTable reports whether a and b are the same table. Tables of old writers have no uuid; their
// locations are compared instead.
func sameTable(a, b *catalog.Table) bool {
	return a.Pin.UUID == b.Pin.UUID && (a.Pin.UUID != "" || a.Location == b.Location)
}

// CheckPolicy compares the tables of a policy's rules with those of the catalog. It returns Invalid
// for withheld columns that do not exist and for filters that do not fit their table; the error has
// the lines of the policy's file. CheckPolicy calls unread for each table that cannot be read now.
// The rules for such a table are checked again by each plan that uses the table, and the plan fails
// if they are wrong.
func (l *Loader) CheckPolicy(ctx context.Context, p *policy.Policy, unread func(table string, err error)) error {
	var faults []fault.Field
	for i, r := range p.Rules {
		for _, limits := range r.Tables {
			t, err := l.options.Catalog.Table(ctx, limits.Name, dataset.Ref{})
			if err != nil {
				unread(limits.Name, err)
				continue
			}
			_, hidden := resolve.Hide(t, limits)
			_, rows := resolve.BindRows(t, limits)
			for _, err := range []error{hidden, rows} {
				if err == nil {
					continue
				}
				for _, f := range fault.As(err).Faults {
					f.Field, f.Line = fault.FieldPath(fmt.Sprintf("rules[%d].tables", i), limits.Name)+"."+f.Field, limits.Line
					faults = append(faults, f)
				}
			}
		}
	}
	return fault.Fields(faults)
}
