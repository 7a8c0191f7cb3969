package changes

import (
	"cmp"
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stage"
)

// TableWriter writes to tables. It is safe for concurrent use.
type TableWriter interface {
	// Writable returns an error if the configuration does not allow writes to a table. It does not ask the catalog.
	Writable(table string) error
	// Stage writes rows to a table as one change; see stage.Stager.
	Stage(ctx context.Context, request dataset.TableWrite, from access.WriteSources, progress func(datafile.Progress), rows array.RecordReader) (stage.WriteResult, error)
	// CheckReaders checks how the client's datasets read a table after a change; see
	// staged.Datasets. It never returns nil. PlanReaders is called before the change, and returns the
	// errors of planning these datasets; it returns no error for a dataset that is not planned.
	CheckReaders(ctx context.Context, made CheckedChange, client CheckingClient) []stage.ReaderCheck
	PlanReaders(ctx context.Context, table string, client CheckingClient) map[string]error
	BranchMover
}

// BranchMover moves the branches of tables. It is safe for concurrent use.
type BranchMover interface {
	// Publish moves main of a table to the snapshot of a branch, after it has checked the limits of the datasets that read the table,
	// and Undo reverses a move; see commit.Brancher. If the request is a dry run, Publish moves nothing, and returns the limits that it
	// would check, without counts.
	Publish(ctx context.Context, request Publication) (commit.Move, []CheckedLimits, error)
	Undo(ctx context.Context, made commit.Move) error
	// Drop drops a table to undo the changes since it was created, and returns the folder of its
	// files; see commit.Brancher.
	Drop(ctx context.Context, request TableDrop) (folder string, err error)
}

// Publication is a request to publish a branch.
type Publication struct {
	commit.Publication
	NoCheck bool // does not check limits
	DryRun  bool
	// Readers are the datasets that the client may read. Errors and results name no others.
	Readers []access.DatasetReader
}

// CheckedLimits are the limits of a dataset's entry that were checked, as JSON.
type CheckedLimits struct {
	Dataset string `json:"dataset"`
	Entry   string `json:"entry"` // "training" for the training table
	drift.Checked
}

// TableDrop is a request to drop a table whose main is at a snapshot.
type TableDrop struct {
	Table    string
	Snapshot int64
	// Confirmed is true if the client has said that the table is to be dropped. Otherwise Drop returns
	// Conflict, which names the datasets that read the table and for which Shown is true.
	Confirmed bool
	Shown     func(dataset string) bool
}

// CheckedChange is a change of a table whose readers are checked.
type CheckedChange struct {
	Table, Branch    string // the branch "" is main
	Snapshot, Parent int64  // of the branch after and before the change; 0: none, or the change made none
	Staged           bool   // the change has staged rows
	BrokenRules      []stage.BrokenRule
	// Before has the errors of planning the datasets before the change, by dataset. A dataset that it
	// lacks is planned with Parent.
	Before map[string]error
}

// CheckingClient is the client of a call that checks the readers of a table.
type CheckingClient struct {
	Readers []access.DatasetReader // the datasets that it may read
	Peer    string                 // whose share of the memory the check uses
	Busy    bool                   // there is no slot for reading, so nothing may be read
}

// TableHistory reads the snapshots of tables. It is safe for concurrent use.
type TableHistory interface {
	// History returns the snapshots of a table. Their memory is charged to held.
	History(ctx context.Context, table string, held *budget.Reservation) (*history.Table, error)
}

// published is the result of publish and undo.
type published struct {
	Table string `json:"table"`
	// Branch is the published branch or, for undo, the branch that was moved back; "" is main.
	Branch string `json:"branch,omitempty"`
	From   int64  `json:"from,omitempty,string"` // the snapshot that main, or the branch of undo, was at; 0: none
	To     int64  `json:"to,omitempty,string"`   // the snapshot that it is at; 0: none
	// Dropped is true if undo dropped the table, or would drop it. Folder is then the folder of its
	// files, which stay; "" if the table is not dropped yet.
	Dropped bool   `json:"dropped,omitempty"`
	Folder  string `json:"folder,omitempty"`
	// Undone lists the snapshots that an undo of the last change removed or would remove from the
	// branch, newest first.
	Undone []history.Entry `json:"undone,omitempty"`
	// Limits are those that a publish has checked, of datasets that the client may read.
	Limits []CheckedLimits `json:"limits,omitempty"`
	// Readers describes how datasets read the table after undo; nil if they were not checked.
	Readers []stage.ReaderCheck `json:"readers,omitzero"`
}

func (w *Service) publish(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.Publish(body)
	if err != nil {
		return nil, err
	}
	out := published{Table: asked.Table, Branch: asked.Branch}
	publish := func(ctx context.Context) error {
		ctx, entered := w.options.Budget.Enter(ctx, c.Client())
		defer entered.Release()
		request := Publication{
			Publication: commit.Publication{Table: asked.Table, Branch: asked.Branch, From: asked.From, To: asked.To},
			NoCheck:     asked.NoCheck, DryRun: asked.DryRun, Readers: w.options.Guard.Readers(c),
		}
		move, checked, err := w.options.Tables.Publish(ctx, request)
		out.From, out.To, out.Limits = move.From, move.To, checked
		return err
	}
	if asked.DryRun {
		if err = w.options.Guard.PermitChange(c, asked.Table, policy.Publish); err == nil {
			err = publish(ctx)
		}
	} else {
		made := tableChange{event: audit.Publish, needs: policy.Publish, tables: []string{asked.Table}}
		err = w.change(ctx, c, made, len(body), func(ctx context.Context) error {
			err := publish(ctx)
			c.Note.Changed(out.To)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return jsontext.Of(out), nil
}

func (w *Service) undo(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.Undo(body)
	if err != nil {
		return nil, err
	}
	if err := w.options.Guard.PermitChange(c, asked.Table, policy.Publish); err != nil {
		return nil, err
	}
	made, out := commit.Move{Table: asked.Table, Ref: cmp.Or(asked.Branch, commit.Main), From: asked.From, To: asked.To}, published{Table: asked.Table}
	if asked.Last() {
		if made, out.Undone, err = w.lastChange(ctx, asked.Table, asked.Branch); err != nil {
			return nil, err
		}
	}
	if out.Dropped, err = w.drops(ctx, made); err != nil {
		return nil, err
	}
	if !asked.DryRun {
		c.Note.Change(audit.Undo, "", asked.Table)
		if out.Dropped {
			shown := func(dataset string) bool { return w.options.Guard.MayRead(c, dataset) }
			out.Folder, err = w.options.Tables.Drop(ctx, TableDrop{Table: asked.Table, Snapshot: made.To, Confirmed: asked.Drop, Shown: shown})
		} else {
			checks := w.checkAround(ctx, c, CheckedChange{Table: asked.Table, Branch: made.Ref, Snapshot: made.From, Parent: made.To}, asked.NoCheck)
			if err = w.options.Tables.Undo(ctx, made); err == nil {
				out.Readers = checks(ctx)
			}
		}
		if err != nil {
			return nil, err
		}
		c.Note.Changed(made.From)
	}
	branch := made.Ref
	out.From, out.To = made.To, made.From
	if branch != commit.Main {
		out.Branch = branch
	}
	return jsontext.Of(out), nil
}
