package flight

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/policy"
)

// changes makes the changes of tables that clients call for. It is safe for concurrent use.
type changes struct {
	guard       *guard
	tables      TableWriter      // nil: nothing is written
	history     TableHistory     // nil: the last change of a table is not known
	maintenance TableMaintenance // nil: tables are neither rewritten nor cleaned
	promoter    Promoter         // nil: no columns are added
	budget      *budget.Budget
	slots       *limits.Queue                                             // of calls that write
	enter       func(context.Context) (ctx context.Context, leave func()) // see Server.enter
	clock       func() time.Time
	ticks       func() time.Time // for how long calls take
	log         *slog.Logger

	patience      time.Duration // how long a call waits for a slot: planWait, except in tests
	putLimit      int64         // bytes of a message with rows
	putTimeout    time.Duration
	progressEvery time.Duration
}

// actions returns the actions that change tables.
func (w *changes) actions() []action {
	var all []action
	if w.tables != nil {
		all = append(all,
			action{name: "publish", description: "Move main of a table to the snapshot of a branch. Body: {table, branch} as JSON. Result: JSON, with the snapshots from and to for undo.", needs: policy.Publish, run: w.publish},
			action{name: "undo", description: "Move a branch of a table back from the snapshot to to the snapshot from, or before the last change of Penstock, if nothing else was committed. Body: {table, branch, from, to, dry_run} as JSON. Result: JSON.", needs: policy.Publish, run: w.undo},
		)
	}
	if w.maintenance != nil {
		all = append(all,
			action{name: "compact", description: "Rewrite files of a table that are small or have deletes. Body: {table, branch, partition, key, any_order, min_files, file_size, dry_run, progress} as JSON. Results: JSON.", needs: policy.Stage, change: w.compact},
			action{name: "restore", description: "Restore a table, or some of its partitions, as they were at a snapshot. Body: {table, snapshot, branch, partition, token, dry_run, progress} as JSON. Results: JSON.", needs: policy.Stage, change: w.restore},
			action{name: "orphans", description: "List, or remove, files of failed writes that no snapshot names. Body: {tables, older_than, remove, progress} as JSON. Results: JSON, in pages.", needs: policy.Stage, change: w.orphans},
		)
	}
	if w.promoter != nil {
		all = append(all,
			action{name: "promote", description: "Make the columns of staging entries columns of the training table. Body: {dataset, entries, earlier, dry_run, progress} as JSON. Results: JSON.", needs: policy.Promote, change: w.promote},
			action{name: "demote", description: "Take promoted columns of a training table back. Body: {table, columns, progress} as JSON. Results: JSON.", needs: policy.Promote, change: w.demote},
		)
	}
	return all
}

// changeMessage is a message of an action that changes tables and takes long. It has one of its fields.
type changeMessage struct {
	Progress *ChangeProgress `json:"progress,omitempty"`
	Result   any             `json:"result,omitempty"`
}

// run runs an action that changes tables, and sends its results, each as a message. A change that failed after a part of
// it was made may have results too.
func (w *changes) run(c *call, a action, body []byte, stream arrowflight.FlightService_DoActionServer) error {
	send := func(m changeMessage) error { return stream.Send(&arrowflight.Result{Body: jsontext.Of(m)}) }
	progress := w.progressMessages(func(p ChangeProgress) error { return send(changeMessage{Progress: &p}) })
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
func (w *changes) change(ctx context.Context, c *call, made tableChange, request int, run func(context.Context) error) error {
	ctx, leave := w.enter(ctx)
	defer leave()
	if err := w.guard.permitted(c, made); err != nil {
		return err
	}
	for _, table := range made.tables {
		if err := w.tables.Writable(table); err != nil {
			return err
		}
	}
	c.slot.leave()
	slot, err := w.slot(ctx, c, int64(request))
	if err != nil {
		return putEnded(ctx, err, made.token)
	}
	defer slot.leave()
	if err := w.guard.permitted(c, made); err != nil { // the policy may have changed while the call waited
		return err
	}
	c.note.change(made.event, made.token, made.tables...)
	log := w.log.With(slog.String("change", string(made.event)), slog.Any("tables", made.tables))
	log.InfoContext(ctx, "change begins", "client", c.client())
	err = putEnded(ctx, run(ctx), made.token)
	var attributes []any
	if err != nil {
		attributes = append(attributes, "error", err)
	}
	log.InfoContext(ctx, "change ends", attributes...)
	return err
}
