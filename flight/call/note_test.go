package call

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/dataset"
)

// Streams, checks, changes and refusals have a line, and no other call has.
func TestLinesOfCalls(t *testing.T) {
	forbidden := fault.Forbidden.String()
	for name, c := range map[string]struct {
		noted       func(c *Call)
		method, end string
		event       audit.Event
		called      string
	}{
		"a plan":                    {func(*Call) {}, "GetFlightInfo", "ok", "", ""},
		"a plan that fails":         {func(*Call) {}, "GetFlightInfo", fault.Invalid.String(), "", ""},
		"a refused plan":            {func(*Call) {}, "GetFlightInfo", forbidden, audit.Refusal, "GetFlightInfo"},
		"a call without a token":    {func(c *Call) { c.Refusal = errors.New("no token") }, "GetFlightInfo", "cancelled", audit.Refusal, "GetFlightInfo"},
		"a dataset that is hidden":  {func(c *Call) { c.Note.Hides() }, "GetSchema", fault.NotFound.String(), audit.Refusal, "GetSchema"},
		"a stream without a ticket": {func(*Call) {}, "DoGet", fault.Expired.String(), audit.Refusal, "DoGet"},
		"a check":                   {func(c *Call) { c.Note.Action("verify"); c.Note.Verify() }, "DoAction", "ok", audit.Verify, "verify"},
		"a change": {func(c *Call) {
			c.Note.Action("publish")
			c.Note.Change(audit.Publish, "", "ml.t")
			c.Note.Changed(7)
		}, "DoAction", forbidden, audit.Publish, "publish"},
	} {
		t.Run(name, func(t *testing.T) {
			of := &Call{Caller: identity.Caller{Subject: "alice"}, Host: "192.0.2.1"}
			c.noted(of)
			line, ok := of.Line(c.method, c.end, 2*time.Second)
			require.Equal(t, c.event != "", ok)
			if !ok {
				return
			}
			want := audit.Line{Event: c.event, Call: c.called, Subject: "alice", Host: "192.0.2.1", End: c.end, Seconds: 2}
			if c.event == audit.Publish {
				want.Tables = []audit.TableSnapshot{{Table: "ml.t", Snapshot: 7}}
			}
			require.Equal(t, want, line)
		})
	}
}

// Log lines stay short whatever names a client sends.
func TestNamesInLinesAreShort(t *testing.T) {
	long := strings.Repeat("ü", MaxName)
	query := dataset.Query{Rows: dataset.Rows{Dataset: long}}
	for range maxAuditedTables + 5 {
		query.With = append(query.With, dataset.Staging{Table: long})
	}
	c := &Call{}
	c.Note.Query(query)
	require.Len(t, c.Note.line.Tables, maxAuditedTables)
	c.Note.Dataset(long)
	for _, name := range []string{c.Note.line.Dataset, c.Note.line.Tables[0].Table} {
		require.LessOrEqual(t, len(name), MaxName+len("…"))
	}
	c.Note.Change(audit.Stage, long, long)
	require.LessOrEqual(t, len(c.Note.line.Token), MaxName+len("…"))
}
