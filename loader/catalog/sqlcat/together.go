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
	run  func(db *sql.DB) // sets text and err, and closes done
	done chan struct{}
	text string
	err  error
}

// waiting are the questions that wait for a connection. It is safe for concurrent use.
type waiting struct {
	mu  sync.Mutex
	all []*asked
}

func (w *waiting) add(a *asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, a)
}

// list returns the questions that wait now.
func (w *waiting) list() []*asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// take removes a question, and reports whether it waited.
func (w *waiting) take(a *asked) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.all, a)
	if at >= 0 {
		w.all = slices.Delete(w.all, at, at+1)
	}
	return at >= 0
}

// read runs a lookup. The first lookup opens a connection and also serves all lookups queued before it was
// open, so that a query of many tables opens one connection: opening takes longer than a lookup. Each lookup
// reads the current state, as on a connection of its own.
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
		<-own.done // it was taken by the one that had the turn before
		return own.text, own.err
	}
	db, err := connect(ctx, lockTimeout(c.limit, c.clock().Sub(began)))
	if err != nil {
		return "", c.ended(ctx, err) // others try with connections of their own
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

// ended returns an error, or, if the question's context has ended, why: SQLite's error is that it was
// interrupted.
func (c *sqliteFile) ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fault.Op(context.Cause(ctx), "read catalog %s", c.name)
	}
	return err
}
