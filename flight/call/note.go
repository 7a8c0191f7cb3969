package call

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// MaxName bounds the names in a line of the audit log, in bytes: a query may carry any.
const MaxName = 256

// maxAuditedTables bounds the tables in the line of a call that is refused.
const maxAuditedTables = 16

// Note collects the audit log entry of a call while the call runs.
type Note struct {
	line   audit.Line
	name   string // of the action
	served bool   // rows, or what is known of them, may have been sent
	hidden bool   // the dataset exists, but not for this client
	follow bool   // the call follows streams that have lines of their own
}

// Action notes the name of an action.
func (n *Note) Action(name string) {
	n.name = name
}

// Query notes which dataset is asked for, and the first tables that the client names itself.
func (n *Note) Query(q dataset.Query) {
	n.line.Dataset, n.line.Inline, n.line.Job, n.line.Tables = fault.Shorten(q.Dataset, MaxName), q.Inline != nil, q.Job, nil
	for i, table := range q.ClientTables() {
		if i < maxAuditedTables {
			n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(table, MaxName)})
		}
	}
}

// Hides notes that the dataset exists, but not for this client: the call is refused, although it ends as not found.
func (n *Note) Hides() {
	n.hidden = true
}

// Follows notes that the call follows streams, which have lines of their own.
func (n *Note) Follows() {
	n.follow = true
}

// Ticket notes the contents of a ticket that the client may not use.
func (n *Note) Ticket(of ticket.Content) {
	n.line.Plan = of.Plan
	if q, err := decode.Query(of.Query); err == nil {
		n.Query(q)
	}
}

// Stream notes that a stream of a plan begins.
func (n *Note) Stream(p loader.Planned) {
	n.served, n.line.Event, n.line.Plan, n.line.Tables = true, audit.Stream, p.ID, nil
	n.line.Shard = fmt.Sprintf("%d/%d", p.Query.Shard.Index, p.Query.Shard.Of)
	table := func(name string, pin dataset.TablePin) {
		n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(name, MaxName), Snapshot: pin.Snapshot})
	}
	if p.Relation == nil {
		return
	}
	table(p.Relation.Dataset.Training.Table, p.Rows.Pin.Training)
	for _, s := range p.Relation.Dataset.Staging {
		table(s.Table, p.Rows.Pin.Staging[s.Name])
	}
}

// Columns notes what a stream sends.
func (n *Note) Columns(schema *arrow.Schema) {
	n.line.Columns = schema.NumFields()
}

// Read notes the amount that a stream has sent. Bytes include those on the wire and in mapped
// memory.
func (n *Note) Read(rows, batches, bytes int64) {
	n.line.Rows, n.line.Batches, n.line.Bytes = rows, batches, bytes
}

// Table notes the table that a call is about, in case it is refused.
func (n *Note) Table(name string) {
	n.line.Tables = []audit.TableSnapshot{{Table: fault.Shorten(name, MaxName)}}
}

// Change notes that tables may be changed.
func (n *Note) Change(event audit.Event, token string, tables ...string) {
	n.served, n.line.Event, n.line.Token, n.line.Tables = true, event, fault.Shorten(token, MaxName), nil
	for _, table := range tables {
		n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(table, MaxName)})
	}
}

// Dataset notes the dataset that a change is about.
func (n *Note) Dataset(name string) {
	n.line.Dataset = fault.Shorten(name, MaxName)
}

// Changed notes the snapshot that main of the table, or the branch, has now.
func (n *Note) Changed(snapshot int64) {
	n.line.Tables[0].Snapshot = snapshot
}

// Wrote notes what a client has sent.
func (n *Note) Wrote(c rowsin.Counts) {
	n.line.Columns, n.line.Rows, n.line.Batches, n.line.Bytes = c.Columns, c.Rows, c.Batches, c.Bytes
}

// Verify notes that tables are checked.
func (n *Note) Verify() {
	n.served, n.line.Event = true, audit.Verify
}

// Verified notes which tables were checked, and how many of their rows.
func (n *Note) Verified(found *loader.Verification) {
	n.line.Plan, n.line.Tables = found.Plan, nil
	for i, t := range found.Tables {
		pin := found.Pin.Training
		if i > 0 {
			pin = found.Pin.Staging[t.Name]
		}
		n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(t.Table, MaxName), Snapshot: pin.Snapshot})
		n.line.Rows += t.Rows
	}
}

// Diff notes that snapshots of the table are compared.
func (n *Note) Diff() {
	n.served, n.line.Event = true, audit.Diff
}

// Differed notes the table and the snapshots that were compared, and how many of their rows. Snapshot
// 0 stands for no snapshot.
func (n *Note) Differed(table string, snapshots []int64, rows int64) {
	n.line.Tables, n.line.Rows = nil, rows
	for _, snapshot := range snapshots {
		if snapshot != 0 {
			n.line.Tables = append(n.line.Tables, audit.TableSnapshot{Table: fault.Shorten(table, MaxName), Snapshot: snapshot})
		}
	}
}

// Stats notes that columns of a table or dataset are described.
func (n *Note) Stats() {
	n.served, n.line.Event = true, audit.Stats
}

// Described notes the tables and snapshots whose columns were described, and the numbers of rows and columns.
func (n *Note) Described(tables []audit.TableSnapshot, rows int64, columns int) {
	n.line.Tables, n.line.Rows, n.line.Columns = tables[:min(len(tables), maxAuditedTables)], rows, columns
}

// Line returns the log line of a call that has ended, and whether it has one: streams, refusals,
// and checks and changes of tables do. A stream that ended before it began counts as a refusal,
// whatever the reason. end is the label of the call's ending.
func (c *Call) Line(method, end string, took time.Duration) (audit.Line, bool) {
	n := &c.Note
	denied := n.hidden || c.Refusal != nil || end == fault.Unauthenticated.String() || end == fault.Forbidden.String()
	switch {
	case n.served:
	case denied || method == "DoGet" && !n.follow:
		n.line.Event = audit.Refusal
	default:
		return audit.Line{}, false
	}
	if n.line.Call = method; n.name != "" {
		n.line.Call = n.name
	}
	n.line.Subject, n.line.Host = c.Caller.Subject, c.Host
	n.line.End, n.line.Seconds = end, took.Seconds()
	return n.line, true
}
