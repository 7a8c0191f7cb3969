package commits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// MaxUnknown is the maximum number of attempts with an unknown outcome. Each of them may take as
// long as the timeout.
const MaxUnknown = 3

// Limits of a commit: the number of attempts, the first and the longest wait between attempts, and
// the time for all attempts. See also MaxUnknown.
const (
	maxCommitTries = 64
	commitWait     = 25 * time.Millisecond
	maxCommitWait  = 2 * time.Second
	commitLimit    = 10 * time.Minute
)

// refMarks are the characters that separate the name of a table from the name of a branch, tag or
// commit of the whole catalog, in table names of catalogs such as Nessie.
const refMarks = "@#"

// TableWriter changes the tables of the namespaces that a catalog may write to. It is safe for concurrent use.
type TableWriter struct {
	source     *metadata.Source
	namespaces []string
	warehouse  string   // the folder of new tables; "" if there is none
	refs       bool     // names may have refMarks
	turns      sync.Map // a channel for each table that was changed, by name: see takeTurn
}

// New returns the TableWriter of a catalog, for the tables of the given namespaces. New tables are
// created below the folder warehouse, which is "" if there is none. If refs is true, a refMark in a
// table's name separates the name from a ref of the catalog; such tables may not be changed.
func New(source *metadata.Source, namespaces []string, warehouse string, refs bool) *TableWriter {
	return &TableWriter{source: source, namespaces: namespaces, warehouse: warehouse, refs: refs}
}

// unwritable returns the error for a change of a table in a catalog that cannot be written to. The
// error is Internal, because such a catalog cannot be opened with writes allowed.
func unwritable(table string) error {
	return fault.New(fault.Internal, "table %s is in a read-only catalog", table).In(table, "")
}

// MayWrite returns Forbidden for a table that this catalog may not change.
func (w *TableWriter) MayWrite(table string) error {
	parts, err := catalog.Parts(table)
	if err != nil {
		return err
	}
	if name := parts[len(parts)-1]; w.refs && strings.ContainsAny(name, refMarks) {
		return fault.New(fault.Forbidden, "table %s may not be changed: %s contains a branch, tag or commit of the catalog, as in Nessie, and only plain table names can be written to", table, name).In(table, "").
			WithRemedy("add a catalog block whose uri names the branch, tag or commit, and leave it out of the name of the table")
	}
	namespace := strings.Join(parts[:len(parts)-1], ".")
	if slices.Contains(w.namespaces, namespace) {
		return nil
	}
	return fault.New(fault.Forbidden, "table %s may not be changed: namespace %s is not one that this catalog may write to", table, namespace).In(table, "").
		WithRemedy("list %s in writes.namespaces of the catalog's block", namespace)
}

// takeTurn waits until no other call of this process is changing the table, because concurrent
// calls would only make each other's commits fail. It returns the context for the call, which ends
// after commitLimit. The caller must call done at the end of the call.
func (w *TableWriter) takeTurn(given context.Context, table string) (ctx context.Context, done func(), err error) {
	ctx, cancel := context.WithTimeout(given, commitLimit)
	found, _ := w.turns.LoadOrStore(table, make(chan struct{}, 1))
	turn, _ := found.(chan struct{})
	select {
	case turn <- struct{}{}:
		return ctx, func() { <-turn; cancel() }, nil
	case <-ctx.Done():
		defer cancel()
		return nil, nil, context.Cause(ctx)
	}
}

// attempt is one attempt to commit, and the files that were written for it.
type attempt struct {
	parent  int64 // the snapshot that the branch was at
	files   []string
	list    string // the manifest list, if there is a new snapshot
	outcome locator.Outcome
	sent    bool // whether the attempt was sent to the catalog
	settled bool // whether it is certain that the attempt was not committed and never will be
}

// writing is one call that changes a table.
type writing struct {
	source   *metadata.Source
	table    string
	prefix   string // the beginning of the names of the files
	attempts []*attempt
	unknown  int              // number of attempts with an unknown outcome
	refused  error            // the error of the last attempt, if the catalog refused it
	at       string           // the state of the table when it was refused
	last     *metadata.Loaded // the table as it was loaded last
}

// repeat calls the function once until it returns true or an error, and removes the files of
// attempts that were not committed. If other commits came first in every attempt, the text of the
// error begins with unchanged.
func (w *writing) repeat(ctx context.Context, unchanged string, once func(context.Context) (bool, error)) error {
	err := w.untilDone(ctx, unchanged, once)
	if w.last != nil {
		w.clean(ctx, w.last)
	}
	if err != nil && w.uncertain() {
		return commit.AsUncertain(err)
	}
	return err
}

func (w *writing) untilDone(ctx context.Context, unchanged string, once func(context.Context) (bool, error)) error {
	for try := range maxCommitTries {
		if err := backoff.Wait(ctx, try, commitWait, maxCommitWait); err != nil {
			return err
		}
		if done, err := once(ctx); done || err != nil {
			return err
		}
	}
	return fault.New(fault.Conflict, "%s in %d attempts, since others committed first", unchanged, maxCommitTries).
		In(w.table, "").WithRemedy("try again")
}

// begin adds a new attempt to the call.
func (w *writing) begin(parent int64) *attempt {
	a := &attempt{parent: parent}
	w.attempts = append(w.attempts, a)
	return a
}

// settle marks the attempts that were not committed and never will be. The caller has checked that
// the table does not have the change of these attempts. Head is the branch's current snapshot: a
// request that was sent earlier can still succeed only as long as the branch has not moved.
func (w *writing) settle(head int64) {
	for _, a := range w.attempts {
		a.settled = a.outcome != locator.Committed && (a.settled || !a.sent || a.outcome == locator.Refused || head != a.parent)
	}
}

// uncertain reports whether an attempt may have been committed, or may yet be committed.
func (w *writing) uncertain() bool {
	return slices.ContainsFunc(w.attempts, func(a *attempt) bool { return a.sent && !a.settled && a.outcome != locator.Committed })
}

// clean removes the files of the attempts that were not committed. Files that cannot be removed
// stay; they do no harm.
func (w *writing) clean(ctx context.Context, meta *metadata.Loaded) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxRemoving)
	defer cancel()
	for _, a := range w.attempts {
		if a.sent && !a.settled { // committed, or perhaps committed
			continue
		}
		for _, location := range a.files {
			if writer, err := w.writer(ctx, meta, location); err == nil {
				_ = writer.Remove(ctx, location)
			}
		}
		a.files = nil
	}
}

// writer returns the storage that a file of the table is written to.
func (w *writing) writer(ctx context.Context, meta *metadata.Loaded, location string) (store.Writer, error) {
	files, err := w.source.Files.StoreIn(ctx, w.table, meta.TableUUID().String(), location)
	if err != nil {
		return nil, err
	}
	return store.OperationsOf(files), nil
}

// write writes a file of an attempt and reads it back (see confirm). The caller has charged the
// memory of content.
func (w *writing) write(ctx context.Context, meta *metadata.Loaded, a *attempt, location string, content []byte) error {
	if err := meta.May("file", location); err != nil {
		return err
	}
	writer, err := w.writer(ctx, meta, location)
	if err != nil {
		return err
	}
	a.files = append(a.files, location)
	err = meta.File.Held.Lend(content, func(p *memory.Buffer) error {
		err := writer.Create(ctx, location, p)
		if err != nil && fault.KindOf(err) == fault.Conflict {
			return nil // the name is random, so an earlier request of this call of Create wrote the file, and its response was lost
		}
		return err
	})
	if err != nil {
		return fault.As(err).In(w.table, location)
	}
	file := meta.File
	file.Location = location
	return confirm(ctx, w.source, meta.Files, file, content)
}

// send sends a revision of the table to the catalog in the way that the catalog supports.
func (w *writing) send(ctx context.Context, meta *metadata.Loaded, a *attempt, r revision.Revision) (locator.Outcome, error) {
	of, err := w.located(meta)
	if err != nil {
		return locator.Refused, err
	}
	switch tables := w.source.Locator.(type) {
	case locator.Updater:
		request, err := revision.Request(meta, r)
		if err != nil {
			return locator.Refused, err
		}
		a.sent = true
		return tables.Update(ctx, of, request)
	case locator.Swapper:
		to := meta.File.Location
		if !meta.Unsaved {
			to = revision.NextLocation(to)
		}
		content, err := revision.File(meta, r, to, w.source.Now())
		if err == nil {
			err = w.write(ctx, meta, a, to, content)
		}
		if err != nil {
			return locator.Refused, err
		}
		a.sent = true
		if meta.Unsaved {
			return tables.Insert(ctx, of, to)
		}
		return tables.Swap(ctx, of, meta.File.Location, to)
	}
	return locator.Refused, unwritable(w.table)
}

func (w *writing) located(meta *metadata.Loaded) (locator.Table, error) {
	parts, err := catalog.Parts(w.table)
	return locator.Table{Name: w.table, Parts: parts, Most: w.source.Most, Charge: meta.File.Charge}, err
}

// outcome records the outcome of an attempt, and reports whether the change was made. It returns an
// error if no further attempt may follow.
func (w *writing) outcome(meta *metadata.Loaded, a *attempt, outcome locator.Outcome, err error) (made bool, failed error) {
	a.outcome = outcome
	// A Swapper sends a request only once, so its outcome is final. An Updater may have sent the
	// request more than once.
	if _, swaps := w.source.Locator.(locator.Swapper); swaps {
		a.settled = outcome == locator.Lost || outcome == locator.Refused
	}
	switch outcome {
	case locator.Committed:
		return true, nil
	case locator.Lost:
		return false, nil
	case locator.Refused:
		if !a.sent {
			return false, err
		}
		// The refusal is not final: a catalog also refuses a snapshot if a commit to another branch
		// came first. So the table is loaded again; if it has not changed, the refusal is returned.
		w.refused, w.at = err, state(meta)
		return false, nil
	case locator.Unknown:
		if w.unknown++; w.unknown == MaxUnknown {
			return false, err
		}
	}
	return false, nil
}

// state returns a text that identifies the state of a loaded table.
func state(m *metadata.Loaded) string {
	return fmt.Sprintf("%s %d %d %d", m.File.Location, m.LastUpdatedMillis(), m.LastSequenceNumber(), m.NextRowID())
}
