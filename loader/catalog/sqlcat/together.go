package sqlcat

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// asked is a question that waits for a connection.
type asked struct {
	run  func(db *sql.DB) // runs the question, sets text and err, and closes done
	done chan struct{}
	text string
	err  error
}

// waiting is the list of the questions that wait for a connection. It is safe for concurrent use.
type waiting struct {
	mu  sync.Mutex
	all []*asked
}

func (w *waiting) add(a *asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, a)
}

// list returns the questions that are waiting now.
func (w *waiting) list() []*asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// take removes a question from the list, and reports whether it was in the list.
func (w *waiting) take(a *asked) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.all, a)
	if at >= 0 {
		w.all = slices.Delete(w.all, at, at+1)
	}
	return at >= 0
}

// read runs a question that reads. Before the caller that has the turn opens a connection, it lists
// the waiting questions, and it then runs all of them on this connection. So a query of many tables
// opens one connection, which saves time, because opening takes longer than a question. Each
// question reads the current state, as if it had opened the connection.
func (c *sqliteFile) read(ctx context.Context, connect func(context.Context, time.Duration) (*sql.DB, error), q question) (string, error) {
	began, own := c.clock(), &asked{done: make(chan struct{})}
	own.run = func(db *sql.DB) {
		defer close(own.done)
		own.text, own.err = q(ctx, db)
		own.err = c.ended(ctx, own.err)
	}
	c.waiting.add(own)
	defer c.waiting.take(own)
	select {
	case <-own.done:
		return own.text, own.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	together := c.waiting.list()
	if !slices.Contains(together, own) {
		<-own.done // the caller that had the turn before took the question
		return own.text, own.err
	}
	db, err := connect(ctx, lockTimeout(c.limit, c.clock().Sub(began)))
	if err != nil {
		return "", c.ended(ctx, err) // the other questions open connections themselves
	}
	for _, one := range together {
		if c.waiting.take(one) {
			one.run(db)
		}
	}
	if closing := db.Close(); own.err == nil && closing != nil {
		return "", c.broken(closing)
	}
	return own.text, own.err
}

// ended returns err, unless ctx has ended: it then returns the reason why ctx ended, because
// SQLite's error only says that the question was interrupted.
func (c *sqliteFile) ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fault.Op(context.Cause(ctx), "read catalog %s", c.name)
	}
	return err
}
