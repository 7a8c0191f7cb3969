package flight

import (
	"cmp"
	"context"
	"log/slog"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/policy"
)

// changeMessage is a message of an action that changes tables and takes long. It has one of its fields.
type changeMessage struct {
	Progress *ChangeProgress `json:"progress,omitempty"`
	Result   any             `json:"result,omitempty"`
}

// runChange runs an action that changes tables, and sends its results, each as a message. A change that failed after a part of
// it was made may have results too.
func (s *service) runChange(c *call, a action, body []byte, stream arrowflight.FlightService_DoActionServer) error {
	send := func(m changeMessage) error { return stream.Send(&arrowflight.Result{Body: marshal(m)}) }
	progress := s.newProgressMessages(func(p ChangeProgress) error { return send(changeMessage{Progress: &p}) })
	out, err := a.change(stream.Context(), c, body, progress)
	progress.flush()
	for _, result := range out {
		if failed := send(changeMessage{Result: result}); failed != nil {
			err = cmp.Or(err, failed)
			break
		}
	}
	return fault.Op(err, "%s", a.name)
}

// tableChange is what a call changes: it determines the right that the call needs, and its line in the audit log.
type tableChange struct {
	event  audit.Event
	needs  policy.Permission
	tables []string
	token  string // "": the change has none
}

// change makes a change with one of the slots of calls that write, once the caller may make it. The change ends with the call,
// and when Shutdown stops waiting for calls. run enters the budget.
func (s *Server) change(ctx context.Context, c *call, made tableChange, request int, run func(context.Context) error) error {
	ctx, leave := s.enter(ctx)
	defer leave()
	if err := s.guard.permitted(c, made); err != nil {
		return err
	}
	for _, table := range made.tables {
		if err := s.options.Tables.Writable(table); err != nil {
			return err
		}
	}
	c.slot.leave()
	slot, err := s.stageSlot(ctx, c, int64(request))
	if err != nil {
		return putEnded(ctx, err, made.token)
	}
	defer slot.leave()
	if err := s.guard.permitted(c, made); err != nil { // the policy may have changed while the call waited
		return err
	}
	c.note.change(made.event, made.token, made.tables...)
	log := s.options.Logger.With(slog.String("change", string(made.event)), slog.Any("tables", made.tables))
	log.InfoContext(ctx, "change begins", "client", c.client())
	err = putEnded(ctx, run(ctx), made.token)
	var attributes []any
	if err != nil {
		attributes = append(attributes, "error", err)
	}
	log.InfoContext(ctx, "change ends", attributes...)
	return err
}
