package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
)

// storageTime is the storage_timeout of the servers.
const storageTime = 2 * time.Second

// smallTables are the training and the staging table of a small dataset.
func smallTables() (training, staging shape) {
	return shape{"small", 2000, 10, 4, append(several("n", 3, longs, 0), several("s", 1, texts, 40)...)},
		shape{"small_features", 2000, 1, 4, append(several("fn", 2, longs, 0), several("fl", 1, lists, 20)...)}
}

// small creates a new warehouse with the small dataset, for attacks that damage it. The caller
// closes it.
func (r *run) small(ctx context.Context, name string) (*warehouse, error) {
	home, err := r.folder(name)
	if err != nil {
		return nil, err
	}
	w, err := newWarehouse(ctx, home)
	if err != nil {
		return nil, err
	}
	training, staging := smallTables()
	for _, s := range []shape{training, staging} {
		if err := w.write(ctx, s); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, w.configure([3]string{"small", training.name, staging.name})
}

// fifo replaces a staging file by a pipe without a writer: opening it never returns, as on a dead
// mount.
func (r *run) fifo(ctx context.Context) error {
	_, staging := smallTables()
	w, err := r.small(ctx, "fifo")
	if err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	path := w.path(staging, 1)
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		return err
	}
	l := launch{home: w.home, budget: 256 * mebi, env: []string{"PENSTOCK_STORAGE_TIMEOUT=" + storageTime.String()}}
	s, err := r.start(ctx, l)
	if err != nil {
		return err
	}
	defer s.kill()
	c, err := dial(s.address, dialing{})
	if err != nil {
		return err
	}
	defer c.close()
	const grace = 5 * time.Second
	limit, cancel := context.WithTimeout(ctx, storageTime+grace)
	defer cancel()
	begun := time.Now()
	ended := make(chan error, 1)
	go func() {
		_, err := read(limit, reading{query: query{Dataset: "small"}, where: func() *client { return c }})
		ended <- err
	}()
	healthy := 0
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		case <-time.After(100 * time.Millisecond):
			asked, stop := context.WithTimeout(ctx, time.Second)
			if c.healthy(asked) == nil {
				healthy++
			}
			stop()
		}
	}
	// The storage does not answer, or the file is not a regular file.
	r.check(s, "the stream fails", fmt.Sprintf("after %.1f s: %v", time.Since(begun).Seconds(), err),
		fmt.Sprintf("by itself within %s", storageTime+grace), isKind(err, "unavailable", "corrupt", "invalid", "not found"))
	r.check(s, "health answers meanwhile", fmt.Sprintf("%d times", healthy), "always", healthy > 0 || time.Since(begun) < time.Second)
	took, err := s.end()
	figure := fmt.Sprintf("%.1f s", took.Seconds())
	if err != nil {
		figure = err.Error()
	}
	r.check(s, "it ends after SIGTERM", figure, (drainTime + endTime).String(), err == nil && took <= drainTime+endTime)
	return nil
}

// metadata makes the table's metadata a sparse file of 20 GB.
func (r *run) metadata(ctx context.Context) error {
	training, _ := smallTables()
	w, err := r.small(ctx, "metadata")
	if err != nil {
		return err
	}
	table, err := w.tables.LoadTable(ctx, []string{"bench", training.name})
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
	const size = 20 * gibi
	path, err := filePath(table.MetadataLocation())
	if err != nil {
		return err
	}
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	return r.against(ctx, launch{home: w.home, budget: 64 * mebi}, func(ctx context.Context, s *server) error {
		return r.refused(ctx, s, "metadata.json of 20 GB", query{Dataset: "small"})
	})
}

// refused checks that a query's stream ends with an error that says why.
func (r *run) refused(ctx context.Context, s *server, what string, q query) error {
	c, err := dial(s.address, dialing{})
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := r.sure(ctx)
	defer cancel()
	_, err = read(ctx, reading{query: q, where: func() *client { return c }})
	r.check(s, what, fmt.Sprint(err), "refused", isKind(err, "invalid", "exhausted", "corrupt"))
	return nil
}

// bombs: data files of a few KB that decompress to a GiB, one of each kind, as training and as
// staging files, at a budget of 64 MiB. The server may return the rows if it stays within its
// bound.
func (r *run) bombs(ctx context.Context) error {
	for _, kind := range []bomb{wholePages, sharedValue} {
		for _, staging := range []bool{false, true} {
			if err := r.bomb(ctx, kind, staging); err != nil {
				return err
			}
		}
	}
	return nil
}

// bomb makes a server read one bomb.
func (r *run) bomb(ctx context.Context, kind bomb, staging bool) error {
	home, err := r.folder("bomb")
	if err != nil {
		return err
	}
	size, err := kind.lay(ctx, home, staging)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s in %d KB of training", kind, size>>10)
	if staging {
		what = fmt.Sprintf("%s in %d KB of staging", kind, size>>10)
	}
	return r.against(ctx, launch{home: home, budget: 64 * mebi}, func(ctx context.Context, s *server) error {
		c, err := dial(s.address, dialing{})
		if err != nil {
			return err
		}
		defer c.close()
		ctx, cancel := r.sure(ctx)
		defer cancel()
		got, err := read(ctx, reading{query: query{Dataset: "bomb", BatchRows: 4}, where: func() *client { return c }})
		figure := got.digest.String()
		if err != nil {
			figure = err.Error()
		}
		r.check(s, what, figure, "rows, or refused", err == nil && got.digest.rows == bombRows || isKind(err, "invalid", "exhausted", "corrupt"))
		return nil
	})
}

// catalog replaces the catalog's file, and then removes it, while clients plan. Each plan that
// begins after that must use the new file, or fail.
func (r *run) catalog(ctx context.Context) error {
	training, _ := smallTables()
	w, err := r.small(ctx, "catalog")
	if err != nil {
		return err
	}
	file := filepath.Join(w.home, database)
	older, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before := int64(training.requests * training.each)
	more := training
	more.name, more.requests = "more", 1000
	if err := w.append(ctx, training, more); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	after := before + int64(more.requests*more.each)
	newer, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	replace := func(content []byte) error {
		return errors.Join(os.WriteFile(file+".new", content, 0o600), os.Rename(file+".new", file))
	}
	if err := replace(older); err != nil {
		return err
	}
	return r.against(ctx, launch{home: w.home, budget: 256 * mebi}, func(ctx context.Context, s *server) error {
		for _, step := range []struct {
			what string
			do   func() error
			rows int64 // of every plan from then on; 0: an error
		}{
			{"plans of the first file", func() error { return nil }, before},
			{"plans after it was replaced by rename", func() error { return replace(newer) }, after},
			{"plans after it was deleted", func() error { return os.Remove(file) }, 0},
			{"plans after it came back", func() error { return replace(older) }, before},
		} {
			wrong, n, err := planners(ctx, s, step.do, step.rows)
			if err != nil {
				return err
			}
			r.check(s, step.what, fmt.Sprintf("%d of %d wrong", wrong, n), "0 wrong", wrong == 0)
		}
		return nil
	})
}

// planners plan before and during a change, and return the number of wrong plans among those that
// began after it.
func planners(ctx context.Context, s *server, do func() error, rows int64) (wrong, plans int, err error) {
	const clients, rounds = 8, 40
	done := make(chan struct{})
	results := make(chan bool, clients*rounds)
	go func() {
		wait(ctx, 50*time.Millisecond) // some plans are on their way when it happens
		err = do()
		close(done)
	}()
	failed := together(clients, func(int) error {
		c, err := dial(s.address, dialing{})
		if err != nil {
			return err
		}
		defer c.close()
		for counted := 0; counted < rounds; {
			late := false
			select {
			case <-done:
				late = true
			default:
			}
			p, err := c.plan(ctx, query{Dataset: "small"})
			if !late {
				continue
			}
			counted++
			var f *refusal
			missing := errors.As(err, &f) && f.code != codes.Internal && f.code != codes.Canceled
			results <- err == nil && p.rows == rows && rows > 0 || missing && rows == 0
		}
		return nil
	})
	close(results)
	for good := range results {
		plans++
		if !good {
			wrong++
		}
	}
	return wrong, plans, errors.Join(err, failed)
}
