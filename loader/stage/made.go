package stage

import (
	"cmp"
	"context"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/transaction"
)

// made reports whether an earlier call made the change. If so, it records the change's snapshot. It
// fails if the table may not be written to.
func (c *staging) made(ctx context.Context) (bool, error) {
	made, ok, err := c.earlier(ctx)
	if ok {
		c.committed(made)
	}
	return ok, err
}

// earlier returns the commit of an earlier call that made the change, if there is one: by the token and, after all rows are read,
// by the rows.
func (c *staging) earlier(ctx context.Context) (commit.Committed, bool, error) {
	made, ok, err := c.tables.Made(ctx, c.change(c.request.Branch))
	if fault.KindOf(err) == fault.NotFound { // the table or the branch is new
		return c.earlierInMain(ctx)
	}
	return made, ok, err
}

// change returns the change of a branch, as far as it is known before files are written.
func (c *staging) change(branch string) commit.Change {
	return commit.Change{Table: c.request.Table, Branch: branch, Token: c.request.Token, Fresh: c.fresh, Rows: c.added}
}

// earlierInMain returns the commit if main has the change, for a branch that does not exist. If so, it
// creates the branch at main, without another commit. A dry run creates no branch.
func (c *staging) earlierInMain(ctx context.Context) (commit.Committed, bool, error) {
	if c.request.Branch == commit.Main {
		return commit.Committed{}, false, nil
	}
	made, ok, err := c.tables.Made(ctx, c.change(commit.Main))
	if fault.KindOf(err) == fault.NotFound {
		return commit.Committed{}, false, nil
	}
	if fault.KindOf(err) == fault.Conflict { // perhaps because an equal call has created the branch since
		if made, ok, failed := c.tables.Made(ctx, c.change(c.request.Branch)); failed == nil {
			return made, ok, nil
		}
	}
	if err != nil || !ok {
		return commit.Committed{}, false, err
	}
	if !c.request.DryRun {
		state, err := c.tables.State(ctx, c.request.Table, commit.Main)
		if err == nil {
			err = c.tables.Move(ctx, commit.Move{Table: c.request.Table, UUID: state.Table.Pin.UUID, Ref: c.request.Branch, To: state.Table.Pin.Snapshot})
		}
		if err != nil {
			return commit.Committed{}, false, err
		}
	}
	made.Began = true
	return made, true, nil
}

// has reports whether the branch has the rows from an earlier call, if the request is to be made once.
func (c *staging) has(ctx context.Context, sorted *extsort.Sorted) (bool, error) {
	if len(sorted.Partitions()) == 0 {
		return false, nil
	}
	if c.added.Digest == "" {
		c.added = addedRows(c.request, c.digest.Sum())
	}
	if !c.added.Once || c.creates != nil {
		return false, nil
	}
	return c.made(ctx)
}

// addedRows returns the identity of a call's rows, given a text that identifies their values.
func addedRows(request dataset.TableWrite, rows string) commit.AddedRows {
	replaces := request.Mode.Replaces()
	return commit.AddedRows{Digest: digest.Of(writtenRows{replaces, rows}), Once: request.Once(), Replaces: replaces}
}

// namedRows returns the identity of the rows if the request names it; otherwise none. Which rows of
// a call with OnlyKeysOf are kept depends on more than the call.
func namedRows(request dataset.TableWrite) commit.AddedRows {
	if request.RowsID == "" || request.OnlyKeysOf != "" {
		return commit.AddedRows{}
	}
	return addedRows(request, "named: "+request.RowsID)
}

// writtenRows are the rows of a call, and whether they replace other rows. The digest in summaries
// covers both.
type writtenRows struct {
	replaces bool
	rows     string
}

// unlessMade returns nil if an equal call has made the change in the meantime: then the error is
// only due to that call's rows. Otherwise, it returns the error.
func (c *staging) unlessMade(ctx context.Context, err error) error {
	if !c.added.Once {
		return err
	}
	if made, failed := c.made(ctx); !made || failed != nil {
		return err
	}
	return nil
}

// committed records the snapshot in the result. If an earlier call made the change, it sets the
// counts to 0.
func (c *staging) committed(made commit.Committed) {
	if r := &c.result; made.Existed {
		r.Token, r.Created, r.Partition, r.Taken, r.Added = cmp.Or(made.Token, r.Token), false, nil, nil, nil
		r.Rows, r.NullKeys, r.Dropped, r.Partitions, r.Files, r.Bytes, r.Removed, r.RemovedRows = 0, 0, 0, 0, 0, 0, 0, 0
		r.KeysUnchecked = false
	} else {
		r.BrokenRules = c.brokenRules()
	}
	c.result.Snapshot, c.result.Parent, c.result.Existed, c.result.Branched = made.Snapshot, made.Parent, made.Existed, made.Began
}

// commitsEarlier lets an attempt end with the commit of an equal call that made the change in the meantime. If there is none, it
// returns the error.
func (c *staging) commitsEarlier(ctx context.Context, a *transaction.Attempt, err error) error {
	if !c.added.Once {
		return err
	}
	made, ok, failed := c.earlier(ctx)
	if !ok || failed != nil {
		return err
	}
	a.Commit = func(context.Context) (commit.Committed, error) { return made, nil }
	return nil
}
