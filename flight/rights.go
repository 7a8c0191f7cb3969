package flight

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/ticket"
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

// errChangedMeanwhile marks the error of changedMeanwhile.
var errChangedMeanwhile = errors.New("the dataset was reloaded")

// changedMeanwhile returns the error for a dataset that was reloaded during a call.
func changedMeanwhile(query dataset.Query) error {
	e := fault.New(fault.Unavailable, "the configuration of dataset %q has changed during the call", query.Dataset)
	e.RetryAfter, e.Err = time.Second, errChangedMeanwhile
	return e.WithRemedy("try again")
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

// withheld is a cause whose kind and contexts count, and whose text no client gets.
type withheld struct{ error }

// Unwrap returns the cause.
func (w withheld) Unwrap() error { return w.error }

// shownFields returns the fields of a query whose faults show only what the query says and the names and types of columns that
// the caller may read. Those of others may have counts, such as the position of a cursor.
func shownFields() []string {
	return []string{"columns", "dense", "filter", "sample", "wire", "endpoints", "dataset"}
}

// checkDataset returns an error if the dataset of a ticket's query, as the caller reads it, has changed since the ticket was made.
func (a callerAccess) checkDataset(c ticket.Content) error {
	switch {
	case a.digest == c.Digest:
		return nil
	case a.query.Inline == nil:
		return ticket.Expired("the configuration of dataset %q has changed since the ticket was made, or the rows that this client may read", a.query.Dataset)
	default:
		return ticket.Expired("the rows that this client may read have changed since the ticket was made")
	}
}

// harmless reports whether a failure shows nothing that a caller with limited access may not read.
func harmless(err error) bool {
	if failure.IsByServer(err) || errors.As(err, new(withheld)) {
		return true
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		var onWire interface{ GRPCStatus() *status.Status }
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &onWire)
	}
	if errors.As(err, new(policy.Seen)) {
		return true
	}
	if e.Kind != fault.Invalid || len(e.Faults) == 0 || e.File != "" || e.Table != "" {
		return false
	}
	return !slices.ContainsFunc(e.Faults, func(f fault.Field) bool { return !shows(f) })
}

// shows reports whether a fault of a field may be shown.
func shows(f fault.Field) bool {
	root := f.Field
	if end := strings.IndexAny(root, ".["); end >= 0 {
		root = root[:end]
	}
	return slices.Contains(shownFields(), root)
}
