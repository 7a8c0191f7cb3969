package flight

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// maxAudited bounds the names in a line of the audit log, in bytes: a query may carry any.
const maxAudited = 256

// maxAuditedTables bounds the tables in the line of a call that is refused.
const maxAuditedTables = 16

// auditNote collects what the audit log says about a call while the call runs.
type auditNote struct {
	line   audit.Line
	began  time.Time
	name   string // of the action
	served bool   // rows, or what is known of them, may have been sent
	hidden bool   // the dataset exists, but not for this client
}

// action notes the name of an action.
func (n *auditNote) action(name string) {
	n.name = name
}

// query notes which dataset is asked for, and the first tables that the client names itself.
func (n *auditNote) query(q dataset.Query) {
	n.line.Dataset, n.line.Inline, n.line.Job, n.line.Tables = fault.Shorten(q.Dataset, maxAudited), q.Inline != nil, q.Job, nil
	for i, table := range q.ClientTables() {
		if i < maxAuditedTables {
			n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(table, maxAudited)})
		}
	}
}

// hides notes that the dataset exists, but not for this client: the call is refused, although it ends as not found.
func (n *auditNote) hides() {
	n.hidden = true
}

// ticket notes what a ticket is for whose client may not use it.
func (n *auditNote) ticket(of ticket.Content) {
	n.line.Plan = of.Plan
	if q, err := decode.Query(of.Query); err == nil {
		n.query(q)
	}
}

// stream notes that a stream of a plan begins.
func (n *auditNote) stream(p planned) {
	n.served, n.line.Event, n.line.Plan, n.line.Tables = true, audit.Stream, p.ID, nil
	n.line.Shard = fmt.Sprintf("%d/%d", p.Query.Shard.Index, p.Query.Shard.Of)
	table := func(name string, pin dataset.TablePin) {
		n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(name, maxAudited), Snapshot: pin.Snapshot})
	}
	if p.Relation == nil {
		return
	}
	table(p.Relation.Dataset.Training.Table, p.Rows.Pin.Training)
	for _, s := range p.Relation.Dataset.Staging {
		table(s.Table, p.Rows.Pin.Staging[s.Name])
	}
}

// columns notes what a stream sends.
func (n *auditNote) columns(schema *arrow.Schema) {
	n.line.Columns = schema.NumFields()
}

// read notes what a stream has sent.
func (n *auditNote) read(end StreamEnd) {
	n.line.Rows, n.line.Batches, n.line.Bytes = end.Rows, end.Batches, end.Bytes+end.MappedBytes
}

// table notes the table that a call is about, in case it is refused.
func (n *auditNote) table(name string) {
	n.line.Tables = []audit.TableSnapshot{{Table: fault.Shorten(name, maxAudited)}}
}

// change notes that tables may be changed.
func (n *auditNote) change(event audit.Event, token string, tables ...string) {
	n.served, n.line.Event, n.line.Token, n.line.Tables = true, event, fault.Shorten(token, maxAudited), nil
	for _, table := range tables {
		n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(table, maxAudited)})
	}
}

// dataset notes the dataset that a change is about.
func (n *auditNote) dataset(name string) {
	n.line.Dataset = fault.Shorten(name, maxAudited)
}

// changed notes the snapshot that main of the table, or the branch, has now.
func (n *auditNote) changed(snapshot int64) {
	n.line.Tables[0].Snapshot = snapshot
}

// wrote notes what a client has sent.
func (n *auditNote) wrote(c rowsin.Counts) {
	n.line.Columns, n.line.Rows, n.line.Batches, n.line.Bytes = c.Columns, c.Rows, c.Batches, c.Bytes
}

// verify notes that tables are checked.
func (n *auditNote) verify() {
	n.served, n.line.Event = true, audit.Verify
}

// verified notes which tables were checked, and how many of their rows.
func (n *auditNote) verified(found *loader.Verification) {
	n.line.Plan, n.line.Tables = found.Plan, nil
	for i, t := range found.Tables {
		pin := found.Pin.Training
		if i > 0 {
			pin = found.Pin.Staging[t.Name]
		}
		n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(t.Table, maxAudited), Snapshot: pin.Snapshot})
		n.line.Rows += t.Rows
	}
}

// audited adds the line of a call that has ended to the audit log, if it has one: streams, checks of tables, and refusals. A
// stream that ended before it began is a refusal, whatever the reason.
func (s *Server) audited(c *call, method string, end failure.Ending) {
	n := &c.note
	if s.options.Audit == nil {
		return
	}
	denied := n.hidden || c.refusal != nil || end.Label == fault.Unauthenticated.String() || end.Label == fault.Forbidden.String()
	switch {
	case n.served:
	case denied || method == "DoGet":
		n.line.Event = audit.Refusal
	default:
		return
	}
	if n.line.Call = method; n.name != "" {
		n.line.Call = n.name
	}
	n.line.Subject = c.caller.Subject
	n.line.Host = c.host
	n.line.End = end.Label
	n.line.Seconds = s.options.Clock().Sub(n.began).Seconds()
	s.options.Audit.Add(n.line)
}

// notAudited refuses a stream that would leave no line in the audit log.
func notAudited(err error) error {
	e := fault.New(fault.Unavailable, "the server admits no stream: %w", err)
	e.RetryAfter = time.Second
	return e.WithRemedy("try again; the server's log says why its audit_log cannot be written")
}
