package loader

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// rightsKey is the key of a context's rights.
type rightsKey struct{}

// For returns a context in which Plan and Verify read what a client has rights to. Plans of clients that may read different
// rows have different ids; those of clients that may read different columns have not, but are cached apart. Without it,
// everything is read.
func For(ctx context.Context, rights policy.Rights) context.Context {
	return context.WithValue(ctx, rightsKey{}, rights)
}

// rightsOf returns the rights of a context.
func rightsOf(ctx context.Context) policy.Rights {
	rights, _ := ctx.Value(rightsKey{}).(policy.Rights)
	return rights
}

// CheckPolicy compares the tables of a policy's rules with those of the catalog. It returns Invalid, with the lines, for withheld
// columns that do not exist and for filters that do not fit, and calls unread for each table that cannot be read now: such a table
// is checked when it is planned, and refused then.
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
