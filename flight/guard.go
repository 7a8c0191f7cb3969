package flight

import (
	"context"
	"log/slog"
	"slices"

	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// guard checks what calls may do, by the policy and the datasets that apply now. It is safe for concurrent use.
type guard struct {
	policy   func() *policy.Policy
	datasets func() []dataset.Dataset
	audit    *audit.Log // a call that would leave no line is refused
	log      *slog.Logger
}

// permit returns what the caller may read of the dataset of a query. A dataset that it may not read does not exist for it. It is
// called for each call, before anything is planned or taken from a cache.
func (g *guard) permit(c *call, query dataset.Query) (callerAccess, error) {
	if query.Inline == nil {
		return g.permitNamed(c, query)
	}
	rights, may := g.policy().Inline(c.caller, *query.Inline)
	if !may {
		return callerAccess{}, fault.New(fault.Forbidden, "this client may not send a dataset of these tables").
			WithRemedy("name a dataset of the server, which ListFlights lists; the operator can allow the tables with a policy, under inline")
	}
	return newAccess(c, rights, *query.Inline, query), nil
}

// permitTo is permit for a caller that does something with the dataset, which it must be allowed to do.
func (g *guard) permitTo(c *call, query dataset.Query, what policy.Permission) (callerAccess, error) {
	may, err := g.permit(c, query)
	if err == nil {
		err = may.allow(what)
	}
	return may, err
}

// permitNamed is permit for a configured dataset, to which the query may add entries: the rule that decides about the dataset must
// allow to send the tables of these, and to read all of them and of the dataset: names in an entry could tell of withheld columns.
func (g *guard) permitNamed(c *call, query dataset.Query) (callerAccess, error) {
	d, rights, err := g.readable(c, query.Dataset)
	if err != nil {
		return callerAccess{}, err
	}
	if added := query.ClientTables(); len(added) > 0 {
		if !g.policy().Adds(c.caller, query.Dataset, added) {
			return callerAccess{}, fault.New(fault.Forbidden, "this client may not add these tables to the dataset").
				WithRemedy("leave out with; the operator can allow the tables with a policy, under inline")
		}
		if rights.Limits(dataset.Dataset{Training: d.Training, Staging: slices.Concat(d.Staging, query.With)}) {
			return callerAccess{}, fault.New(fault.Forbidden, "entries can be added only by a client that may read all of the dataset and of the added tables").
				WithRemedy("leave out with; or use a token of a client that may read all of them")
		}
		if d, _, err = query.DatasetOf([]dataset.Dataset{d}); err != nil {
			return callerAccess{}, err
		}
	}
	return newAccess(c, rights, d, query), nil
}

// permitTicket is permit for the query of a ticket. The ticket is expired if the dataset, as the caller reads it, has changed since
// the ticket was made.
func (g *guard) permitTicket(of *call, query dataset.Query, c ticket.Content) (callerAccess, error) {
	may, err := g.permit(of, query)
	switch {
	case err == nil:
		err = may.checkDataset(c)
	case fault.KindOf(err) == fault.Invalid: // it was valid then
		err = ticket.Expired("the configuration of dataset %q has changed since the ticket was made: %s", query.Dataset, fault.As(err).Message)
	}
	return may, err
}

// checkUnchanged returns an error if the dataset that permit returned is no longer what a query reads, or may no longer be read: what
// the loader answered since then may be of a dataset with other limits.
func (g *guard) checkUnchanged(may callerAccess) error {
	now, err := g.permit(may.call, may.query)
	if err == nil && now.digest != may.digest {
		err = changedMeanwhile(may.query)
	}
	return err
}

// readable returns a configured dataset and the caller's rights to it. Its error proposes only what the caller may read.
func (g *guard) readable(c *call, name string) (dataset.Dataset, policy.Rights, error) {
	now, who := g.policy(), c.caller
	var names []string
	for _, d := range g.datasets() {
		rights, may := now.Read(who, d.Name)
		switch {
		case may && d.Name == name:
			return d, rights, nil
		case may:
			names = append(names, d.Name)
		case d.Name == name:
			c.note.hides()
		}
	}
	return dataset.Dataset{}, policy.Rights{}, dataset.Unknown(name, names)
}

// mayCall reports whether the caller may call an action, on some dataset at least. No caller may call an action without a right.
func (g *guard) mayCall(c *call, a action) bool {
	return a.needs == policy.Reading || a.needs != "" && g.policy().May(c.caller, a.needs)
}

// disclosed returns a failure as the caller may see it. Messages of the catalog, the joins and the storage have names of columns,
// values, files and counts: a caller that may not read everything gets those of its query's fields alone, and the log has the rest.
func (g *guard) disclosed(ctx context.Context, a callerAccess, err error) error {
	if !a.limited || err == nil || harmless(err) {
		return err
	}
	e := fault.As(err)
	g.log.WarnContext(ctx, "the details of a failure are withheld from the client", "dataset", a.query.Dataset, "client", a.call.client(), "error", err, "cause", e.Err)
	out := fault.New(e.Kind, "the query failed, and this client may not read all of the dataset, so that the details are withheld").
		WithRemedy("check the query; if that does not help, ask the operator of the server, whose log has the details")
	if e.Kind == fault.NotFound || e.Kind == fault.Expired {
		out = out.WithRemedy("plan again, without snapshots and cursor; if that does not help, ask the operator of the server, whose log has the details")
	}
	out.RetryAfter, out.Err = e.RetryAfter, withheld{err}
	return out
}

// permitChange returns an error unless the caller may change a table. It is the same whether or not the table exists.
func (g *guard) permitChange(c *call, table string, what policy.Permission) error {
	if err := g.audit.Err(); err != nil {
		return notAudited(err)
	}
	c.note.table(table)
	if g.policy().Write(c.caller, table, what) {
		return nil
	}
	return fault.New(fault.Forbidden, "this client may not %s table %s on this server", what, fault.Shorten(table, maxAudited)).
		WithRemedy("ask the operator of the server for a rule of its policy with allow: [%s] and write: [%s]; without a policy, only local clients of a server without credentials may write", what, fault.Shorten(table, maxAudited))
}

// permitted returns an error unless the caller may make a change.
func (g *guard) permitted(c *call, made tableChange) error {
	for _, table := range made.tables {
		if err := g.permitChange(c, table, made.needs); err != nil {
			return err
		}
	}
	return nil
}

// permitStage returns the sources of what a command writes. It returns an error unless the caller may do what the command says.
func (g *guard) permitStage(c *call, command dataset.TableWrite) (from WriteSources, err error) {
	if err := g.permitChange(c, command.Table, policy.Stage); err != nil {
		return WriteSources{}, err
	}
	from.Shown = func(dataset string) bool { return g.mayRead(c, dataset) }
	if command.OnlyKeysOf != "" {
		if from.KeysRights, err = g.permitKeysOf(c, command.OnlyKeysOf); err != nil {
			return WriteSources{}, err
		}
	}
	if command.Like != "" {
		from.LikeRights, err = g.permitLike(c, command.Like)
	}
	return from, err
}

// mayRead reports whether the caller may read a dataset.
func (g *guard) mayRead(c *call, dataset string) bool {
	_, may := g.policy().Read(c.caller, dataset)
	return may
}

// permitKeysOf returns the caller's rights to a dataset or a table, whose keys decide which rows are kept. It returns an error
// unless the caller may read all of it. If a dataset and a table share a name, the dataset wins, as in the writer; rights to
// the table do not apply.
func (g *guard) permitKeysOf(c *call, of string) (policy.Rights, error) {
	d, rights, err := g.readable(c, of)
	if err != nil {
		if slices.ContainsFunc(g.datasets(), func(d dataset.Dataset) bool { return d.Name == of }) {
			return policy.Rights{}, err
		}
		d = dataset.Dataset{Training: dataset.Training{Table: of}}
		var may bool
		if rights, may = g.policy().Inline(c.caller, d); !may {
			return policy.Rights{}, err
		}
	}
	if rights.Limits(d) {
		return policy.Rights{}, fault.New(fault.Forbidden, "this client may not read all of %s, whose keys only_keys_of would show", of).
			WithRemedy("stage the rows without only_keys_of")
	}
	return rights, nil
}

// permitLike returns the caller's rights to a table that a new one is laid out like: one that the caller writes to, or all columns of
// which it may read, by a right to tables or to a dataset. Otherwise it returns an error. With guesses of names of its own, a caller
// could find out the columns by which a table is partitioned.
func (g *guard) permitLike(c *call, table string) (policy.Rights, error) {
	now, who := g.policy(), c.caller
	if now.Write(who, table, policy.Stage) {
		return policy.Rights{}, nil
	}
	rights, reads := now.Inline(who, dataset.Dataset{Training: dataset.Training{Table: table}})
	if reads && len(rights.Of(table).Withheld) == 0 {
		return rights, nil
	}
	for _, d := range g.datasets() {
		of, may := now.Read(who, d.Name)
		if !may || !now.Has(d, table) {
			continue
		}
		if reads = true; len(of.Of(table).Withheld) == 0 {
			return policy.Rights{}, nil // the operator has named the table so
		}
	}
	if reads {
		return policy.Rights{}, fault.New(fault.Forbidden, "this client may not read all columns of %s, whose layout like would show", fault.Shorten(table, maxAudited)).
			WithRemedy("name the number of buckets instead of like")
	}
	return policy.Rights{}, fault.New(fault.NotFound, "there is no table %s that this client may read or write", fault.Shorten(table, maxAudited)).
		WithRemedy("name the number of buckets")
}

// promotable returns a dataset that the caller may promote entries of: one that it may read whole, since the columns have the
// values of all rows.
func (g *guard) promotable(c *call, name string) (dataset.Dataset, error) {
	d, rights, err := g.readable(c, name)
	if err == nil && rights.Limits(d) {
		err = fault.New(fault.Forbidden, "this client may not read all of dataset %s, whose values promote would write", name).
			WithRemedy("use a token of a client that may read all of it")
	}
	return d, err
}
