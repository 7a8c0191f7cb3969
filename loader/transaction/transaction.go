// Package transaction makes one change of a table. If other writers commit to the table meanwhile,
// it makes up to MaxAttempts attempts.
//
// Each attempt loads the table's state, prepares the change for this state, and commits. The
// outcome determines whether the files of the attempt are removed:
//
//   - The change was made: the files belong to the table.
//   - The outcome is unknown (commit.Uncertain): the files stay, since they may belong to the
//     table. Run does not check. A caller that repeats the change with its token learns the
//     outcome.
//   - An earlier call made the change: the files are removed.
//   - Another writer committed first (Conflict): the files are removed, and another attempt follows
//     after a wait. If the table's state has not changed since the attempt, there is no other
//     attempt, since it would have the same conflict.
//   - Any other error: the files are removed.
//
// The package does not depend on the kinds of files and changes: its callers prepare and commit
// them.
package transaction

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/upload"
)

// MaxAttempts is the maximum number of attempts of one transaction. It is large because each commit
// of another writer can make an attempt fail.
const MaxAttempts = 64

// minWait is the maximum wait after the first attempt, and maxWait is the maximum wait after any
// attempt.
const (
	minWait = 25 * time.Millisecond
	maxWait = 200 * time.Millisecond
)

// TableStates loads the states of tables. See commit.Committer.
type TableStates interface {
	State(ctx context.Context, table, branch string) (*commit.TableState, error)
}

// Attempt is one attempt. Prepare fills it in.
type Attempt struct {
	// State is the state of the table that the attempt begins with.
	State *commit.TableState
	// Commit makes the change; nil: there is nothing to change, and the transaction is done.
	Commit func(ctx context.Context) (commit.Committed, error)
	// Discard removes the files that were written only for this attempt; nil: there are none. It is
	// also called if Prepare returns an error, or if it leaves Commit nil.
	Discard func(ctx context.Context)
}

// Transaction is a change of a branch of a table.
type Transaction struct {
	Tables        TableStates
	Table, Branch string
	// First is the state that the first attempt begins with; nil: it is loaded.
	First *commit.TableState
	// Once is true if the change does not depend on the state of the branch. A conflict is then
	// final, and no other attempt follows.
	Once bool
	// Prepare prepares an attempt: it writes files and sets the attempt's Commit. Its errors are final.
	Prepare func(ctx context.Context, a *Attempt) error
	// Discard removes the files that all attempts share; nil: there are none.
	Discard func(ctx context.Context)
}

// Run makes the change. If there was nothing to change, it returns a Committed whose Snapshot is 0.
//
// It returns the errors of Prepare, State and Commit. It returns Conflict if the change no longer
// fits the table, or if all attempts failed because other writers committed.
func (t Transaction) Run(ctx context.Context) (commit.Committed, error) {
	var last attemptEnd
	var seen *commit.TableState // the state of the last attempt
	for attempts := range MaxAttempts {
		state, err := t.next(ctx, attempts)
		if last.err != nil && fault.KindOf(err) == fault.NotFound {
			break // the branch does not exist because of the conflict, so return the conflict
		}
		if err != nil {
			last = attemptEnd{err: err}
			break
		}
		if attempts > 0 && equal(state, seen) {
			break
		}
		if last = t.attempt(ctx, state); last.final {
			break
		}
		seen = state
	}
	if !last.kept {
		discard(ctx, t.Discard)
	}
	return last.made, last.err
}

// next returns the state that the next attempt begins with, after a wait.
func (t Transaction) next(ctx context.Context, attempts int) (*commit.TableState, error) {
	if attempts == 0 && t.First != nil {
		return t.First, nil
	}
	if err := backoff.Wait(ctx, attempts, minWait, maxWait); err != nil {
		return nil, err
	}
	return t.Tables.State(ctx, t.Table, t.Branch)
}

// attemptEnd describes how an attempt ended.
type attemptEnd struct {
	made  commit.Committed
	err   error
	kept  bool // whether the files belong to the table, or may belong to it
	final bool // whether no other attempt may follow
}

// attempt makes one attempt, and removes its files unless they are kept.
func (t Transaction) attempt(ctx context.Context, state *commit.TableState) attemptEnd {
	a := &Attempt{State: state}
	err := t.Prepare(ctx, a)
	if err != nil || a.Commit == nil {
		discard(ctx, a.Discard)
		return attemptEnd{err: err, final: true}
	}
	made, err := a.Commit(ctx)
	unknown := commit.Uncertain(err)
	out := attemptEnd{
		made: made, err: err, kept: unknown || err == nil && !made.Existed,
		final: unknown || t.Once || fault.KindOf(err) != fault.Conflict,
	}
	if !out.kept {
		discard(ctx, a.Discard)
	}
	return out
}

// discard removes files, even if ctx has ended.
func discard(ctx context.Context, remove func(context.Context)) {
	if remove == nil {
		return
	}
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	remove(ctx)
}

// equal reports whether two states of a branch are equal in everything that a change can depend on.
func equal(a, b *commit.TableState) bool {
	return a.Table.Pin == b.Table.Pin && a.Current == b.Current && a.LastColumn == b.LastColumn && a.Spec == b.Spec && a.SortOrder == b.SortOrder
}
