package transaction_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/transaction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errConflict  = fault.New(fault.Conflict, "others committed first")
	errRefused   = fault.New(fault.Unavailable, "the catalog refuses")
	errUncertain = commit.AsUncertain(fault.New(fault.Conflict, "no answer"))
)

// table is a table whose snapshot changes with each commit of another writer. It records the calls
// of a transaction.
type table struct {
	snapshot int64
	state    error
	log      []string
}

func (t *table) State(context.Context, string, string) (*commit.TableState, error) {
	t.log = append(t.log, "state")
	if t.state != nil {
		return nil, t.state
	}
	return at(t.snapshot), nil
}

func at(snapshot int64) *commit.TableState {
	return &commit.TableState{Table: &catalog.Table{Pin: dataset.TablePin{UUID: "t", Snapshot: snapshot}}}
}

// logs returns a function that records that it was called.
func (t *table) logs(what string) func(context.Context) {
	return func(ctx context.Context) {
		if ctx.Err() != nil {
			what += " too late"
		}
		t.log = append(t.log, what)
	}
}

// change returns a transaction whose attempts end with these errors. The last error repeats.
func (t *table) change(errs ...error) transaction.Transaction {
	attempts := 0
	return transaction.Transaction{
		Tables: t, Table: "ml.t", Branch: commit.Main, Discard: t.logs("discard"),
		Prepare: func(_ context.Context, a *transaction.Attempt) error {
			attempts++
			t.log = append(t.log, fmt.Sprintf("prepare on %d", a.State.Table.Pin.Snapshot))
			a.Discard = t.logs(fmt.Sprintf("discard attempt %d", attempts))
			a.Commit = func(context.Context) (commit.Committed, error) {
				t.log = append(t.log, "commit")
				if err := errs[min(attempts, len(errs))-1]; err != nil {
					return commit.Committed{}, err
				}
				return commit.Committed{Snapshot: 7}, nil
			}
			return nil
		},
	}
}

// moves changes a transaction so that another writer commits before each of its commits.
func (t *table) moves(of transaction.Transaction) transaction.Transaction {
	prepare := of.Prepare
	of.Prepare = func(ctx context.Context, a *transaction.Attempt) error {
		t.snapshot++
		return prepare(ctx, a)
	}
	return of
}

func TestChangesThatAreMade(t *testing.T) {
	r := &table{}
	made, err := r.change(nil).Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, made.Snapshot)
	require.Equal(t, []string{"state", "prepare on 0", "commit"}, r.log, "the files stay")

	r = &table{}
	of := r.change(nil)
	of.First = at(3)
	_, err = of.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"prepare on 3", "commit"}, r.log, "the first state is given")
}

func TestAnotherAttemptFollowsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &table{}
		made, err := r.moves(r.change(errConflict, errConflict, nil)).Run(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 7, made.Snapshot)
		require.Equal(t, []string{
			"state", "prepare on 0", "commit", "discard attempt 1",
			"state", "prepare on 1", "commit", "discard attempt 2",
			"state", "prepare on 2", "commit",
		}, r.log)
	})
}

func TestConflictsWithAnUnchangedTableAreFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &table{}
		_, err := r.change(errConflict).Run(t.Context())
		require.ErrorIs(t, err, errConflict)
		require.Equal(t, []string{"state", "prepare on 0", "commit", "discard attempt 1", "state", "discard"}, r.log)
	})
}

// A conflict is retried if any state that a change can depend on has changed.
func TestConflictsAfterChangesOfTheSchemaAreNotFinal(t *testing.T) {
	for name, change := range map[string]func(*commit.TableState){
		"table":       func(s *commit.TableState) { s.Table.Pin.UUID = "other" },
		"snapshot":    func(s *commit.TableState) { s.Table.Pin.Snapshot++ },
		"schema":      func(s *commit.TableState) { s.Current++ },
		"last column": func(s *commit.TableState) { s.LastColumn++ },
		"spec":        func(s *commit.TableState) { s.Spec++ },
		"sort order":  func(s *commit.TableState) { s.SortOrder++ },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &table{}
				of := r.change(errConflict, nil)
				of.First = at(0)
				change(of.First)
				_, err := of.Run(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

func TestTransactionsGiveUpIfOthersDoNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &table{}
		_, err := r.moves(r.change(errConflict)).Run(t.Context())
		require.ErrorIs(t, err, errConflict)
		commits := len(slices.DeleteFunc(slices.Clone(r.log), func(what string) bool { return what != "commit" }))
		require.Equal(t, transaction.MaxAttempts, commits)
		require.Equal(t, "discard", r.log[len(r.log)-1])
	})
}

func TestFilesAreRemovedUnlessTheTableMayHaveThem(t *testing.T) {
	gone := errors.New("the client is gone")
	for name, c := range map[string]struct {
		change func(r *table, cancel context.CancelCauseFunc) transaction.Transaction
		err    error
		log    []string
	}{
		"refused": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction { return r.change(errRefused) },
			err:    errRefused,
			log:    []string{"state", "prepare on 0", "commit", "discard attempt 1", "discard"},
		},
		"uncertain": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				return r.moves(r.change(errUncertain))
			},
			err: errUncertain,
			log: []string{"state", "prepare on 0", "commit"},
		},
		"conflict that is final": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				of := r.moves(r.change(errConflict))
				of.Once = true
				return of
			},
			err: errConflict,
			log: []string{"state", "prepare on 0", "commit", "discard attempt 1", "discard"},
		},
		"made by an earlier call": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				of := r.change(nil)
				prepare := of.Prepare
				of.Prepare = func(ctx context.Context, a *transaction.Attempt) error {
					err := prepare(ctx, a)
					a.Commit = func(context.Context) (commit.Committed, error) {
						return commit.Committed{Snapshot: 5, Existed: true}, nil
					}
					return err
				}
				return of
			},
			log: []string{"state", "prepare on 0", "discard attempt 1", "discard"},
		},
		"not prepared": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				of := r.change(nil)
				prepare := of.Prepare
				of.Prepare = func(ctx context.Context, a *transaction.Attempt) error {
					return errors.Join(prepare(ctx, a), errConflict)
				}
				return of
			},
			err: errConflict,
			log: []string{"state", "prepare on 0", "discard attempt 1", "discard"},
		},
		"nothing to change": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				of := r.change(nil)
				of.Prepare = func(context.Context, *transaction.Attempt) error { return nil }
				return of
			},
			log: []string{"state", "discard"},
		},
		"a table that is gone": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				r.state = errRefused
				return r.change(nil)
			},
			err: errRefused,
			log: []string{"state", "discard"},
		},
		"a branch that was not made": {
			change: func(r *table, _ context.CancelCauseFunc) transaction.Transaction {
				r.state = fault.New(fault.NotFound, "there is no such branch")
				of := r.change(errConflict)
				of.First = at(0)
				return of
			},
			err: errConflict,
			log: []string{"prepare on 0", "commit", "discard attempt 1", "state", "discard"},
		},
		"a client that is gone": {
			change: func(r *table, cancel context.CancelCauseFunc) transaction.Transaction {
				of := r.moves(r.change(errConflict))
				prepare := of.Prepare
				of.Prepare = func(ctx context.Context, a *transaction.Attempt) error {
					cancel(gone)
					return prepare(ctx, a)
				}
				return of
			},
			err: gone,
			log: []string{"state", "prepare on 0", "commit", "discard attempt 1", "discard"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				r := &table{}
				_, err := c.change(r, cancel).Run(ctx)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.log, r.log)
			})
		})
	}
}
