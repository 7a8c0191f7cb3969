package access

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// Guard checks the rights of calls against the current policy and datasets. It is safe for
// concurrent use.
type Guard struct {
	Policy   func() *policy.Policy
	Datasets func() []dataset.Dataset
	Audit    *audit.Log // a call that would leave no line is refused
	Log      *slog.Logger
}

// Permit returns the caller's grant for the dataset of a query. A dataset that the caller may not
// read is reported as not found. Permit runs for each call, before anything is planned or taken
// from a cache.
func (g *Guard) Permit(c *call.Call, query dataset.Query) (Grant, error) {
	if query.Inline == nil {
		return g.permitNamed(c, query)
	}
	rights, may := g.Policy().Inline(c.Caller, *query.Inline)
	if !may {
		return Grant{}, fault.New(fault.Forbidden, "this client may not send a dataset of these tables").
			WithRemedy("name a dataset of the server, which ListFlights lists; the operator can allow the tables with a policy, under inline")
	}
	return newGrant(c, rights, *query.Inline, query), nil
}

// PermitTo is Permit for a caller that also needs the right to an action on the dataset.
func (g *Guard) PermitTo(c *call.Call, query dataset.Query, what policy.Permission) (Grant, error) {
	may, err := g.Permit(c, query)
	if err == nil {
		err = may.allow(what)
	}
	return may, err
}

// permitNamed is Permit for a configured dataset to which the query may add entries. The rule that
// applies to the dataset must allow the caller to send the tables of these entries, and to read all
// of these tables and of the dataset, because names in an entry could reveal withheld columns.
func (g *Guard) permitNamed(c *call.Call, query dataset.Query) (Grant, error) {
	d, rights, err := g.Readable(c, query.Dataset)
	if err != nil {
		return Grant{}, err
	}
	if added := query.ClientTables(); len(added) > 0 {
		if !g.Policy().Adds(c.Caller, query.Dataset, added) {
			return Grant{}, fault.New(fault.Forbidden, "this client may not add these tables to the dataset").
				WithRemedy("leave out with; the operator can allow the tables with a policy, under inline")
		}
		if rights.Limits(dataset.Dataset{Training: d.Training, Staging: slices.Concat(d.Staging, query.With)}) {
			return Grant{}, fault.New(fault.Forbidden, "entries can be added only by a client that may read all of the dataset and of the added tables").
				WithRemedy("leave out with; or use a token of a client that may read all of them")
		}
		if d, _, err = query.DatasetOf([]dataset.Dataset{d}); err != nil {
			return Grant{}, err
		}
	}
	return newGrant(c, rights, d, query), nil
}

// PermitTicket is Permit for the query of a ticket. The ticket is expired if the dataset, as the caller reads it, has changed since
// the ticket was made.
func (g *Guard) PermitTicket(of *call.Call, query dataset.Query, c ticket.Content) (Grant, error) {
	may, err := g.Permit(of, query)
	switch {
	case err == nil:
		err = may.checkDataset(c)
	case fault.KindOf(err) == fault.Invalid: // it was valid then
		err = ticket.Expired("the configuration of dataset %q has changed since the ticket was made: %s", query.Dataset, fault.As(err).Message)
	}
	return may, err
}

// CheckUnchanged returns an error if a query no longer reads the dataset that Permit returned, or
// may no longer read it. The loader's later answers may be for a dataset with other limits.
func (g *Guard) CheckUnchanged(may Grant) error {
	now, err := g.Permit(may.Call, may.Query)
	if err == nil && now.Digest != may.Digest {
		err = ChangedMeanwhile(may.Query)
	}
	return err
}

// Readable returns a configured dataset and the caller's rights to it. Its error suggests only
// names that the caller may read.
func (g *Guard) Readable(c *call.Call, name string) (dataset.Dataset, policy.Rights, error) {
	now, who := g.Policy(), c.Caller
	var names []string
	for _, d := range g.Datasets() {
		rights, may := now.Read(who, d.Name)
		switch {
		case may && d.Name == name:
			return d, rights, nil
		case may:
			names = append(names, d.Name)
		case d.Name == name:
			c.Note.Hides()
		}
	}
	return dataset.Dataset{}, policy.Rights{}, dataset.Unknown(name, names)
}

// MayCall reports whether the caller may call an action that needs a right, on some dataset at least. No caller may call an action
// without a right.
func (g *Guard) MayCall(c *call.Call, needs policy.Permission) bool {
	return needs == policy.Reading || needs != "" && g.Policy().May(c.Caller, needs)
}

// Disclosed returns a failure without details that the caller may not see. Messages of the catalog,
// the joins and the storage contain names of columns, values, files and counts. A caller with
// limited rights gets only the faults of its query's fields; the log has the rest. No caller gets the name of a table that it may not
// read, which the failure suggests instead of an unknown one.
func (g *Guard) Disclosed(ctx context.Context, a Grant, err error) error {
	if err == nil {
		return nil
	}
	if !a.Limited || harmless(err) {
		return g.DisclosedName(a.Call, err)
	}
	e := fault.As(err)
	g.Log.WarnContext(ctx, "the details of a failure are withheld from the client", "dataset", a.Query.Dataset, "client", a.Call.Client(), "error", err, "cause", e.Err)
	out := fault.New(e.Kind, "the query failed, and this client may not read all of the dataset, so the details are withheld").
		WithRemedy("check the query; if that does not help, ask the operator of the server, whose log has the details")
	if e.Kind == fault.NotFound || e.Kind == fault.Expired {
		out = out.WithRemedy("plan again, without snapshots and cursor; if that does not help, ask the operator of the server, whose log has the details")
	}
	out.RetryAfter, out.Err = e.RetryAfter, withheld{err}
	return out
}

// PermitChange returns an error unless the caller may change a table. It is the same whether or not the table exists.
func (g *Guard) PermitChange(c *call.Call, table string, what policy.Permission) error {
	if err := g.Audit.Err(); err != nil {
		return NotAudited(err)
	}
	c.Note.Table(table)
	if g.Policy().Write(c.Caller, table, what) {
		return nil
	}
	return fault.New(fault.Forbidden, "this client may not %s table %s on this server", what, fault.Shorten(table, call.MaxName)).
		WithRemedy("ask the operator of the server for a rule of its policy with allow: [%s] and write: [%s]; without a policy, only local clients of a server without credentials may write", what, fault.Shorten(table, call.MaxName))
}

// PermitChanges returns an error unless the caller may change all of some tables.
func (g *Guard) PermitChanges(c *call.Call, tables []string, what policy.Permission) error {
	for _, table := range tables {
		if err := g.PermitChange(c, table, what); err != nil {
			return err
		}
	}
	return nil
}

// WriteSources are the caller's rights to the tables whose keys and layout a change uses.
type WriteSources struct {
	KeysRights policy.Rights // to OnlyKeysOf
	LikeRights policy.Rights // to the table that a new one is laid out like
	// Shown reports whether errors may name a dataset that reads the table.
	Shown func(dataset string) bool
}

// DatasetReader is a dataset that a caller may read.
type DatasetReader struct {
	Dataset   dataset.Dataset
	Rights    policy.Rights
	Disclosed func(ctx context.Context, err error) error // see Guard.Disclosed
}

// Readers returns the datasets that the caller may read.
func (g *Guard) Readers(c *call.Call) []DatasetReader {
	now := g.Policy()
	var out []DatasetReader
	for _, d := range g.Datasets() {
		rights, may := now.Read(c.Caller, d.Name)
		if !may {
			continue
		}
		grant := newGrant(c, rights, d, dataset.Query{Rows: dataset.Rows{Dataset: d.Name}})
		out = append(out, DatasetReader{d, rights, func(ctx context.Context, err error) error { return g.Disclosed(ctx, grant, err) }})
	}
	return out
}

// PermitStage returns the sources of a write command. It returns an error unless the caller may run
// the command.
func (g *Guard) PermitStage(c *call.Call, command dataset.TableWrite) (from WriteSources, err error) {
	if err := g.PermitChange(c, command.Table, policy.Stage); err != nil {
		return WriteSources{}, err
	}
	from.Shown = func(dataset string) bool { return g.MayRead(c, dataset) }
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

// MayRead reports whether the caller may read a dataset.
func (g *Guard) MayRead(c *call.Call, dataset string) bool {
	_, may := g.Policy().Read(c.Caller, dataset)
	return may
}

// permitKeysOf returns the caller's rights to the dataset or table whose keys decide which rows are
// kept. It returns an error unless the caller may read all of it. If a dataset and a table share a
// name, the dataset wins, as in the writer; rights to the table do not apply.
func (g *Guard) permitKeysOf(c *call.Call, of string) (policy.Rights, error) {
	d, rights, err := g.Readable(c, of)
	if err != nil {
		if slices.ContainsFunc(g.Datasets(), func(d dataset.Dataset) bool { return d.Name == of }) {
			return policy.Rights{}, err
		}
		d = dataset.Dataset{Training: dataset.Training{Table: of}}
		var may bool
		if rights, may = g.Policy().Inline(c.Caller, d); !may {
			return policy.Rights{}, err
		}
	}
	if rights.Limits(d) {
		return policy.Rights{}, fault.New(fault.Forbidden, "this client may not read all of %s, whose keys only_keys_of would show", of).
			WithRemedy("stage the rows without only_keys_of")
	}
	return rights, nil
}

// permitLike returns the caller's rights to a table whose layout a new table copies. It returns an
// error unless the caller may write to the table or read all its columns, by a right to tables or
// to a dataset. Otherwise, a caller could guess names to find the columns by which a table is
// partitioned.
func (g *Guard) permitLike(c *call.Call, table string) (policy.Rights, error) {
	now, who := g.Policy(), c.Caller
	if now.Write(who, table, policy.Stage) {
		return policy.Rights{}, nil
	}
	rights, reads := now.Inline(who, dataset.Dataset{Training: dataset.Training{Table: table}})
	if reads && len(rights.Of(table).Withheld) == 0 {
		return rights, nil
	}
	for _, d := range g.Datasets() {
		of, may := now.Read(who, d.Name)
		if !may || !now.Has(d, table) {
			continue
		}
		if reads = true; len(of.Of(table).Withheld) == 0 {
			return policy.Rights{}, nil // the operator has named the table so
		}
	}
	if reads {
		return policy.Rights{}, fault.New(fault.Forbidden, "this client may not read all columns of %s, whose layout like would show", fault.Shorten(table, call.MaxName)).
			WithRemedy("name the number of buckets instead of like")
	}
	return policy.Rights{}, fault.New(fault.NotFound, "there is no table %s that this client may read or write", fault.Shorten(table, call.MaxName)).
		WithRemedy("name the number of buckets")
}

// Promotable returns a dataset whose entries the caller may promote. The caller must be allowed to
// read all of it, because the columns contain the values of all rows.
func (g *Guard) Promotable(c *call.Call, name string) (dataset.Dataset, error) {
	d, rights, err := g.Readable(c, name)
	if err == nil && rights.Limits(d) {
		err = fault.New(fault.Forbidden, "this client may not read all of dataset %s, whose values promote would write", name).
			WithRemedy("use a token of a client that may read all of it")
	}
	return d, err
}

// NotAudited refuses a stream that would leave no line in the audit log.
func NotAudited(err error) error {
	e := fault.New(fault.Unavailable, "the server admits no stream: %w", err)
	e.RetryAfter = time.Second
	return e.WithRemedy("try again; the server's log says why its audit_log cannot be written")
}
