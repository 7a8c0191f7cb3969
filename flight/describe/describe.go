// Package describe serves the action stats, which describes the values of columns of tables and datasets.
//
// It promises that the policy allows a description before it begins and when it ends, also after the call has waited; that the result has
// nothing of columns and rows that the caller may not read; that a description takes the slot of a stream and ends with its call; and that it
// leaves a line in the audit log.
package describe

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
	"github.com/penstock/penstock/loader/statistics/htmlpage"
)

// Describer describes tables and datasets. It is safe for concurrent use.
type Describer interface {
	DescribeTable(ctx context.Context, request Request) (*statistics.Result, error)
	DescribeDataset(ctx context.Context, request Request) (*entries.Result, error)
}

// Request is a description that a client may get.
type Request struct {
	decode.StatsCommand
	// Rights are those to the table or dataset, and BaseRights those to the dataset to compare with.
	Rights, BaseRights policy.Rights
	// Read is called from time to time with the number of rows read so far and the number of all rows to read.
	Read func(read, all int64)
	// Pinned is that of entries.Request.
	Pinned func(table string, snapshot int64)
}

// Options configure a Service.
type Options struct {
	Guard     *access.Guard
	Describer Describer // nil: there is no action
	Budget    *budget.Budget
	// AsStream calls run when the call has the slot of a stream. The context of run ends with the call, and when the server stops waiting
	// for calls.
	AsStream func(ctx context.Context, c *call.Call, run func(context.Context) error) error
	Clock    func() time.Time
}

// Service describes tables and datasets that clients name. It is safe for concurrent use.
type Service struct{ options Options }

// New returns a service.
func New(o Options) *Service { return &Service{options: o} }

// Actions returns the action.
func (s *Service) Actions() []call.Action {
	if s.options.Describer == nil {
		return nil
	}
	return []call.Action{{
		Name: "stats", Description: "Describe the values of columns of a table or dataset. Body: {of, at, against, columns, label, exact, no_values, keep, html, progress} as JSON. Results: JSON, {progress} or {result}; with html, the second result is {html}.",
		Needs: policy.Reading, Run: progress.Answering(s.options.Clock, s.describe),
	}}
}

// page is the second result of a call that requests an HTML page.
type page struct {
	HTML string `json:"html"`
}

// described is a finished description.
type described struct {
	result  any
	write   func(io.Writer) error // writes the HTML page
	tables  []audit.TableSnapshot
	rows    int64
	columns int
}

func (s *Service) describe(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Stats(body)
	if err != nil {
		return nil, err
	}
	to.Wanted(asked.Progress)
	of := s.subject(c, asked)
	permitted, err := of.permit()
	if err != nil {
		return nil, err
	}
	var out described
	err = s.options.AsStream(ctx, c, func(ctx context.Context) error {
		var err error
		if permitted, err = of.permit(); err != nil { // the policy may have changed while the call waited
			return err
		}
		ctx, entered := s.options.Budget.Enter(ctx, c.Client())
		defer entered.Release()
		request := Request{StatsCommand: asked, Rights: permitted.of.Rights, BaseRights: permitted.base.Rights}
		request.Read = func(read, all int64) {
			to.At(progress.Message{Step: "read", Counts: progress.Counts{RowsRead: read, OfRowsRead: all}})
		}
		out, err = of.run(ctx, request)
		return err
	})
	if changed := permitted.unchanged(of); changed != nil {
		return nil, changed
	}
	if err != nil {
		return nil, permitted.disclosed(ctx, s.options.Guard, failure.Cause(ctx, err))
	}
	c.Note.Described(out.tables, out.rows, out.columns)
	return s.answer(asked, out)
}

// answer returns the results.
func (s *Service) answer(asked decode.StatsCommand, out described) ([]any, error) {
	if !asked.HTML {
		return []any{out.result}, nil
	}
	held, err := s.options.Budget.Reserve("a page of statistics", 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	text := chargedText{held: held}
	if err := out.write(&text); err != nil {
		return nil, err
	}
	return []any{out.result, page{HTML: text.String()}}, nil
}

// chargedText is a text whose memory is charged.
type chargedText struct {
	strings.Builder
	held *budget.Reservation
}

// Write implements io.Writer.
func (t *chargedText) Write(p []byte) (int, error) {
	const growth = 2 // a builder grows to twice its size, or less
	if err := t.held.Grow(growth * int64(len(p))); err != nil {
		return 0, err
	}
	return t.Builder.Write(p)
}

// subject is a table or dataset to describe.
type subject struct {
	permit func() (permission, error)
	run    func(ctx context.Context, request Request) (described, error)
}

// permission is what the caller may read of a subject, and of the dataset to compare with.
type permission struct {
	of, base access.Grant
	table    string // "": the subject is a dataset
}

// unchanged returns an error if the caller may no longer read what it was permitted to read.
func (p permission) unchanged(of subject) error {
	now, err := of.permit()
	same := func(a, b access.Grant) bool { return a.Digest == b.Digest && a.Limited == b.Limited }
	if err == nil && !(same(now.of, p.of) && same(now.base, p.base)) {
		err = access.ChangedMeanwhile(p.of.Query)
	}
	return err
}

// disclosed returns a failure without details that the caller may not see.
func (p permission) disclosed(ctx context.Context, g *access.Guard, err error) error {
	if p.table != "" {
		err = g.DisclosedTable(p.of.Call, p.table, err)
	}
	limited := p.of
	limited.Limited = p.of.Limited || p.base.Limited
	return g.Disclosed(ctx, limited, err)
}

// subject returns the subject of a call. The names of tables have a namespace, and so a point. A dataset that the caller may not read does
// not exist for it.
func (s *Service) subject(c *call.Call, asked decode.StatsCommand) subject {
	if strings.Contains(asked.Of, ".") {
		if _, _, err := s.options.Guard.Readable(c, asked.Of); err != nil {
			return s.table(c, asked)
		}
	}
	return s.dataset(c, asked)
}

// dataset returns a dataset as a subject. The caller may describe what it may read.
func (s *Service) dataset(c *call.Call, asked decode.StatsCommand) subject {
	query := func(name string) dataset.Query { return dataset.Query{Rows: dataset.Rows{Dataset: name}} }
	permit := func() (out permission, err error) {
		c.Note.Query(query(asked.Of))
		if err := s.options.Guard.Audit.Err(); err != nil {
			return out, access.NotAudited(err)
		}
		if out.of, err = s.options.Guard.Permit(c, query(asked.Of)); err == nil && asked.Against != "" {
			out.base, err = s.options.Guard.Permit(c, query(asked.Against))
		}
		switch {
		case err != nil:
			return out, err
		case asked.Keep:
			return out, fault.InvalidField("keep", "the statistics of tables are kept, and not those of dataset %s", asked.Of).WithRemedy("name a table, or leave out keep")
		case asked.At != "":
			return out, fault.InvalidField("at", "a dataset is described as its refs say").WithRemedy("leave out the snapshot, or name a table")
		}
		return out, nil
	}
	return subject{permit, func(ctx context.Context, request Request) (described, error) {
		c.Note.Stats()
		var tables []audit.TableSnapshot
		request.Pinned = func(table string, snapshot int64) {
			tables = append(tables, audit.TableSnapshot{Table: table, Snapshot: snapshot})
		}
		r, err := s.options.Describer.DescribeDataset(ctx, request)
		if err != nil {
			return described{}, err
		}
		out := described{result: r, tables: tables, write: func(w io.Writer) error { return htmlpage.WriteDataset(w, r) }, rows: r.Rows, columns: len(r.Columns)}
		for _, e := range r.Entries {
			out.columns += len(e.Columns)
		}
		return out, nil
	}}
}

// table returns a table as a subject. The caller needs the rights of PermitStats. To keep the result with the table, it also needs the right
// to change the table, and to read all of it.
func (s *Service) table(c *call.Call, asked decode.StatsCommand) subject {
	permit := func() (out permission, err error) {
		out.table = asked.Of
		if out.of, err = s.options.Guard.PermitStats(c, asked.Of, asked.At, asked.Against); err != nil || !asked.Keep {
			return out, err
		}
		if out.of.Limited {
			return out, fault.New(fault.Forbidden, "this client may not read all columns of table %s, whose statistics would be kept", fault.Shorten(asked.Of, call.MaxName)).
				WithRemedy("leave out keep, or use a token of a client that may read all of the table")
		}
		return out, s.options.Guard.PermitChange(c, asked.Of, policy.Stage)
	}
	return subject{permit, func(ctx context.Context, request Request) (described, error) {
		if c.Note.Stats(); asked.Keep {
			c.Note.Change(audit.Keep, "", asked.Of)
		}
		r, err := s.options.Describer.DescribeTable(ctx, request)
		if err != nil {
			return described{}, err
		}
		out := described{result: r, write: func(w io.Writer) error { return htmlpage.Write(w, r) }, rows: r.Rows, columns: len(r.Columns)}
		out.tables = []audit.TableSnapshot{{Table: r.Table, Snapshot: r.Snapshot}}
		if r.Against != nil {
			out.tables = append(out.tables, audit.TableSnapshot{Table: r.Against.Table, Snapshot: r.Against.Snapshot})
		}
		return out, nil
	}}
}
