// Package changes serves the calls that change tables: rows that clients send with DoPut, and the actions that publish, rewrite,
// restore, clean and promote.
//
// It promises that no change begins before the policy and the configuration allow it, also after the call has waited; that rows become
// one change, and only once the client has sent their number; that calls wait for one of a number of slots, within bounds of bytes and
// time, and that clients that send or read nothing lose theirs; and that an error says whether the change may have been made.
package changes

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/policy"
)

// Options configure a Service.
type Options struct {
	Guard       *access.Guard
	Tables      TableWriter      // nil: nothing is written
	History     TableHistory     // nil: the last change of a table is not known
	Maintenance TableMaintenance // nil: tables are neither rewritten nor cleaned
	Promoter    Promoter         // nil: no columns are added
	Budget      *budget.Budget
	// Places is the number of calls that may change tables at the same time. Share is the
	// percentage of them that one client may use.
	Places, Share int
	// Enter counts a change until leave is called, which may be called more than once. The context ends with the call, and when the
	// server stops waiting for calls.
	Enter func(context.Context) (ctx context.Context, leave func())
	// ReadSlot takes a slot of a stream for a client, if one is free. The caller calls leave.
	ReadSlot func(client string) (leave func(), ok bool)
	Clock    func() time.Time
	Ticks    func() time.Time // for how long calls take
	Log      *slog.Logger
	// PutTimeout is how long a client may take for a message with rows; 0: the default.
	PutTimeout time.Duration
}

// Service makes the changes of tables that clients call for. It is safe for concurrent use.
type Service struct {
	options  Options
	slots    *limits.Queue // of calls that write
	putLimit int64         // bytes of a message with rows
}

// New returns a service.
func New(o Options) *Service {
	o.PutTimeout = cmp.Or(o.PutTimeout, putTimeout)
	return &Service{options: o, slots: call.NewQueue(o.Places, o.Share, o.Ticks, manyWrites), putLimit: rowsin.Limit(o.Budget.Limit())}
}

// Counts returns the number of calls that change tables and the number that wait for a slot.
func (w *Service) Counts() (open, waiting int) {
	now := w.slots.Counts()
	return now.Taken, now.Waiting
}

// MaxMessage returns the maximum size of a message with rows, in bytes.
func (w *Service) MaxMessage() int64 { return w.putLimit }

// Actions returns the actions that change tables.
func (w *Service) Actions() []call.Action {
	var all []call.Action
	if w.options.Tables != nil {
		all = append(all,
			call.Action{Name: "publish", Description: "Move main of a table to the snapshot of a branch. Body: {table, branch, from, to, dry_run, no_check} as JSON. Result: JSON, with the snapshots from and to for undo, and the limits that were checked.", Needs: policy.Publish, Run: call.Answering(w.publish)},
			call.Action{Name: "undo", Description: "Move a branch of a table back from the snapshot to to the snapshot from, or before the last change of Penstock, if nothing else was committed. Body: {table, branch, from, to, dry_run} as JSON. Result: JSON.", Needs: policy.Publish, Run: call.Answering(w.undo)},
		)
	}
	if w.options.Maintenance != nil {
		all = append(all,
			call.Action{Name: "compact", Description: "Rewrite files of a table that are small or have deletes. Body: {table, branch, partition, key, any_order, min_files, file_size, dry_run, progress} as JSON. Results: JSON.", Needs: policy.Stage, Run: progress.Answering(w.options.Clock, w.compact)},
			call.Action{Name: "restore", Description: "Restore a table, or some of its partitions, as they were at a snapshot. Body: {table, snapshot, branch, partition, token, allow_duplicates, dry_run, no_check, progress} as JSON. Results: JSON.", Needs: policy.Stage, Run: progress.Answering(w.options.Clock, w.restore)},
			call.Action{Name: "orphans", Description: "List, or remove, files of failed writes that no snapshot names. Body: {tables, older_than, remove, progress} as JSON. Results: JSON, in pages.", Needs: policy.Stage, Run: progress.Answering(w.options.Clock, w.orphans)},
		)
	}
	if w.options.Promoter != nil {
		all = append(all,
			call.Action{Name: "promote", Description: "Make the columns of staging entries columns of the training table. Body: {dataset, entries, earlier, dry_run, progress} as JSON. Results: JSON.", Needs: policy.Promote, Run: progress.Answering(w.options.Clock, w.promote)},
			call.Action{Name: "demote", Description: "Take promoted columns of a training table back. Body: {table, columns, dry_run, progress} as JSON. Results: JSON.", Needs: policy.Promote, Run: progress.Answering(w.options.Clock, w.demote)},
		)
	}
	return all
}

// tableChange describes a change. It determines the right that the call needs and its line in the
// audit log.
type tableChange struct {
	event  audit.Event
	needs  policy.Permission
	tables []string
	token  string // "": the change has none
}

// change checks that the caller may make a change, waits for a write slot and makes the change. The
// change ends with the call, or when Shutdown stops waiting for calls. run enters the budget.
func (w *Service) change(ctx context.Context, c *call.Call, made tableChange, request int, run func(context.Context) error) error {
	ctx, leave := w.options.Enter(ctx)
	defer leave()
	if err := w.options.Guard.PermitChanges(c, made.tables, made.needs); err != nil {
		return err
	}
	for _, table := range made.tables {
		if err := w.options.Tables.Writable(table); err != nil {
			return err
		}
	}
	c.Slot.Leave()
	slot, err := w.slot(ctx, c, int64(request))
	if err != nil {
		return putEnded(ctx, err, made.token)
	}
	defer slot.leave()
	if err := w.options.Guard.PermitChanges(c, made.tables, made.needs); err != nil { // the policy may have changed while the call waited
		return err
	}
	c.Note.Change(made.event, made.token, made.tables...)
	log := w.options.Log.With(slog.String("change", string(made.event)), slog.Any("tables", made.tables))
	log.InfoContext(ctx, "change begins", "client", c.Client())
	err = putEnded(ctx, run(ctx), made.token)
	var attributes []any
	if err != nil {
		attributes = append(attributes, "error", err)
	}
	log.InfoContext(ctx, "change ends", attributes...)
	return err
}
