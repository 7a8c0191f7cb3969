package flight

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stream"
)

// callerAccess is what the caller of a query may read of its dataset.
type callerAccess struct {
	call   *call
	rights policy.Rights
	// limited reports that columns or rows of the dataset are withheld. Then failures have no details, and what describes all
	// rows is left out.
	limited bool
	query   dataset.Query
	digest  string // of the dataset as the caller reads it, which tickets have
}

// newAccess returns what a caller with rights may read of the dataset of a query.
func newAccess(c *call, rights policy.Rights, d dataset.Dataset, query dataset.Query) callerAccess {
	return callerAccess{call: c, rights: rights, limited: rights.Limits(d), query: query, digest: rights.Filtered(d).Digest()}
}

// policy returns the policy that applies now.
func (s *Server) policy() *policy.Policy { return s.options.Policy() }

// permit returns what the caller may read of the dataset of a query. A dataset that it may not read does not exist for it. It is
// called for each call, before anything is planned or taken from a cache.
func (s *Server) permit(c *call, query dataset.Query) (callerAccess, error) {
	if query.Inline == nil {
		return s.permitNamed(c, query)
	}
	rights, may := s.policy().Inline(c.caller, *query.Inline)
	if !may {
		return callerAccess{}, fault.New(fault.Forbidden, "this client may not send a dataset of these tables").
			WithRemedy("name a dataset of the server, which ListFlights lists; the operator can allow the tables with a policy, under inline")
	}
	return newAccess(c, rights, *query.Inline, query), nil
}

// permitTo is permit for a caller that does something with the dataset, which it must be allowed to do.
func (s *Server) permitTo(c *call, query dataset.Query, what policy.Permission) (callerAccess, error) {
	may, err := s.permit(c, query)
	if err == nil {
		err = may.allow(what)
	}
	return may, err
}

// permitNamed is permit for a configured dataset, to which the query may add entries: the rule that decides about the dataset must
// allow to send the tables of these, and to read all of them and of the dataset: names in an entry could tell of withheld columns.
func (s *Server) permitNamed(c *call, query dataset.Query) (callerAccess, error) {
	d, rights, err := s.readable(c, query.Dataset)
	if err != nil {
		return callerAccess{}, err
	}
	if added := query.ClientTables(); len(added) > 0 {
		if !s.policy().Adds(c.caller, query.Dataset, added) {
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

// checkUnchanged returns an error if the dataset that permit returned is no longer what a query reads, or may no longer be read: what
// the loader answered since then may be of a dataset with other limits.
func (s *Server) checkUnchanged(may callerAccess) error {
	now, err := s.permit(may.call, may.query)
	if err == nil && now.digest != may.digest {
		err = changedMeanwhile(may.query)
	}
	return err
}

// errChangedMeanwhile marks the error of changedMeanwhile.
var errChangedMeanwhile = errors.New("the dataset was reloaded")

// changedMeanwhile returns the error for a dataset that was reloaded during a call.
func changedMeanwhile(query dataset.Query) error {
	e := fault.New(fault.Unavailable, "the configuration of dataset %q has changed during the call", query.Dataset)
	e.RetryAfter, e.Err = time.Second, errChangedMeanwhile
	return e.WithRemedy("try again")
}

// readable returns a configured dataset and the caller's rights to it. Its error proposes only what the caller may read.
func (s *Server) readable(c *call, name string) (dataset.Dataset, policy.Rights, error) {
	now, who := s.policy(), c.caller
	var names []string
	for _, d := range s.options.Loader.Datasets() {
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

// allow returns an error unless the caller may do something with the dataset. Explain and verify describe columns and rows that
// the caller may not read, if there are some.
func (a callerAccess) allow(what policy.Permission) error {
	if what == policy.Reading {
		return nil
	}
	if !a.rights.May(what) {
		return forbidden(what)
	}
	if a.limited {
		return fault.New(fault.Forbidden, "%s would show more of the dataset than this client may read", what).
			WithRemedy("use a token of a client that may read all of it")
	}
	return nil
}

// forbidden is the error of an action that a client may not call.
func forbidden(what policy.Permission) error {
	return fault.New(fault.Forbidden, "this client may not call %s", what).WithRemedy("ask the operator of the server for a rule of its policy with allow: [%s]", what)
}

// mayCall reports whether the caller may call an action, on some dataset at least. No caller may call an action without a right.
func (s *Server) mayCall(c *call, a action) bool {
	return a.needs == policy.Reading || a.needs != "" && s.policy().May(c.caller, a.needs)
}

// checkEndpoints refuses endpoints of splits for a caller that may not read all rows: their number, ids and sizes are those of
// all rows.
func (a callerAccess) checkEndpoints(q dataset.Query) error {
	if a.limited && q.Endpoints.BySplits() {
		return fault.InvalidField("endpoints", "splits would show more of the dataset than this client may read").
			WithRemedy("use endpoints: shards")
	}
	return nil
}

// redacted removes from a summary what describes rows that the caller may not read, and filters of the dataset and the rights.
func (a callerAccess) redacted(s summary) summary {
	if !a.limited {
		return s
	}
	s.Splits = unknown
	if s.RowsUnknown != "" {
		s.RowsUnknown = "rows are dropped when they are read"
	}
	return s
}

// redactedReport removes from a report how it was joined and the bytes that were read, which are those of all rows and columns.
func (a callerAccess) redactedReport(r stream.Report) stream.Report {
	if !a.limited {
		return r
	}
	r.Cached, r.Staging = nil, maps.Clone(r.Staging)
	for name, s := range r.Staging {
		s.Strategy, s.BytesRead, s.Shared, s.ReadAgain, s.Amplification, s.SpilledBytes, s.Warning = "", 0, 0, 0, 0, 0, ""
		r.Staging[name] = s
	}
	return r
}

// manifestOf returns the dataset as a manifest has it: for a caller that may not read all of it, only what it sent.
func (a callerAccess) manifestOf(p planned) []byte {
	switch {
	case !a.limited:
		return p.Relation.Dataset.Canonical()
	case a.query.Inline != nil:
		return a.query.Inline.Canonical()
	}
	return []byte("{}")
}

// disclosed returns a failure as the caller may see it. Messages of the catalog, the joins and the storage have names of columns,
// values, files and counts: a caller that may not read everything gets those of its query's fields alone, and the log has the rest.
func (s *Server) disclosed(ctx context.Context, a callerAccess, err error) error {
	if !a.limited || err == nil || harmless(err) {
		return err
	}
	e := fault.As(err)
	s.options.Logger.WarnContext(ctx, "the details of a failure are withheld from the client", "dataset", a.query.Dataset, "client", a.call.client(), "error", err, "cause", e.Err)
	out := fault.New(e.Kind, "the query failed, and this client may not read all of the dataset, so that the details are withheld").
		WithRemedy("check the query; if that does not help, ask the operator of the server, whose log has the details")
	if e.Kind == fault.NotFound || e.Kind == fault.Expired {
		out = out.WithRemedy("plan again, without snapshots and cursor; if that does not help, ask the operator of the server, whose log has the details")
	}
	out.RetryAfter, out.Err = e.RetryAfter, withheld{err}
	return out
}

// withheld is a cause whose kind and contexts count, and whose text no client gets.
type withheld struct{ error }

// Unwrap returns the cause.
func (w withheld) Unwrap() error { return w.error }

// shownFields returns the fields of a query whose faults show only what the query says and the names and types of columns that
// the caller may read. Those of others may have counts, such as the position of a cursor.
func shownFields() []string {
	return []string{"columns", "dense", "filter", "sample", "wire", "endpoints", "dataset"}
}
