// Package access decides, by the current policy and datasets, what a caller may do and which
// details of failures it may see.
//
// It guarantees that a dataset that a caller may not read is reported as not found; that a caller
// restricted to some rows or columns gets no text about the rest; and that every call that reads or
// changes tables leaves a line in the audit log.
package access

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stream"
)

// Grant is the caller's rights to the dataset of a query.
type Grant struct {
	Call   *call.Call
	Rights policy.Rights
	// Limited reports that columns or rows of the dataset are withheld. If so, failures omit their
	// details unless these are harmless, and descriptions that cover all rows are omitted.
	Limited bool
	Query   dataset.Query
	Digest  string // of the dataset as the caller reads it; tickets have the same digest
}

// newGrant returns the grant of a caller with rights for the dataset of a query.
func newGrant(c *call.Call, rights policy.Rights, d dataset.Dataset, query dataset.Query) Grant {
	return Grant{Call: c, Rights: rights, Limited: rights.Limits(d), Query: query, Digest: rights.Filtered(d).Digest()}
}

// ErrChangedMeanwhile marks the error of ChangedMeanwhile.
var ErrChangedMeanwhile = errors.New("the dataset was reloaded")

// ChangedMeanwhile returns the error for a dataset that was reloaded during a call.
func ChangedMeanwhile(query dataset.Query) error {
	e := fault.New(fault.Unavailable, "the configuration of dataset %q has changed during the call", query.Dataset)
	e.RetryAfter, e.Err = time.Second, ErrChangedMeanwhile
	return e.WithRemedy("try again")
}

// allow returns an error unless the caller has the permission what on the dataset. Explain and
// verify can describe columns and rows that the caller may not read.
func (a Grant) allow(what policy.Permission) error {
	if what == policy.Reading {
		return nil
	}
	if !a.Rights.May(what) {
		return Forbidden(what)
	}
	if a.Limited {
		return fault.New(fault.Forbidden, "%s would show more of the dataset than this client may read", what).
			WithRemedy("use a token of a client that may read all of it")
	}
	return nil
}

// Forbidden is the error of an action that a client may not call.
func Forbidden(what policy.Permission) error {
	return fault.New(fault.Forbidden, "this client may not call %s", what).WithRemedy("ask the operator of the server for a rule of its policy with allow: [%s]", what)
}

// CheckEndpoints refuses endpoints of splits for a caller that may not read all rows, because their
// number, ids and sizes describe all rows.
func (a Grant) CheckEndpoints(q dataset.Query) error {
	if a.Limited && q.Endpoints.BySplits() {
		return fault.InvalidField("endpoints", "splits would show more of the dataset than this client may read").
			WithRemedy("use endpoints: shards")
	}
	return nil
}

// RedactedReport returns the report without join details and byte counts, because these describe
// all rows and columns.
func (a Grant) RedactedReport(r stream.Report) stream.Report {
	if !a.Limited {
		return r
	}
	r.Cached, r.Staging = nil, maps.Clone(r.Staging)
	for name, s := range r.Staging {
		s.Strategy, s.BytesRead, s.Shared, s.ReadAgain, s.Amplification, s.SpilledBytes, s.Warning = "", 0, 0, 0, 0, 0, ""
		r.Staging[name] = s
	}
	return r
}

// DatasetText returns the dataset's text for a manifest. A caller that may not read all of the
// dataset gets only the inline dataset that the caller sent, or {}.
func (a Grant) DatasetText(d dataset.Dataset) []byte {
	switch {
	case !a.Limited:
		return d.Canonical()
	case a.Query.Inline != nil:
		return a.Query.Inline.Canonical()
	}
	return []byte("{}")
}

// withheld is a cause whose kind and contexts are used, but whose text is not sent to clients.
type withheld struct{ error }

// Unwrap returns the cause.
func (w withheld) Unwrap() error { return w.error }

// shownFields returns the fields of a query whose faults show only what the query says and the
// names and types of columns that the caller may read. Faults of other fields may contain counts,
// such as the position of a cursor.
func shownFields() []string {
	return []string{"columns", "dense", "filter", "sample", "wire", "endpoints", "dataset"}
}

// checkDataset returns an error if the dataset of a ticket's query, as the caller reads it, has changed since the ticket was made.
func (a Grant) checkDataset(c ticket.Content) error {
	switch {
	case a.Digest == c.Digest:
		return nil
	case a.Query.Inline == nil:
		return ticket.Expired("since the ticket was made, the configuration of dataset %q has changed, or the rows that this client may read have changed", a.Query.Dataset)
	default:
		return ticket.Expired("the rows that this client may read have changed since the ticket was made")
	}
}

// harmless reports whether a failure may be shown to a caller with limited access.
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
