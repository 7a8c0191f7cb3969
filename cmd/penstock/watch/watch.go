// Package watch reloads files when they change.
//
// It compares the content of the files every two seconds. It does not use notifications of the
// operating system: Kubernetes replaces a symbolic link to a folder, editors rename files, and
// network file systems send no notifications. Comparing contents covers all of these cases, and the
// files are small.
//
// Changed content is loaded after two consecutive comparisons find it the same, so that files are
// not loaded while they are being written. If the new content cannot be loaded, the error is
// logged, and the previous content stays in use until the files change again.
//
// Each group of files is compared and loaded independently of the others. One load may wait a
// minute for a catalog, and during this time a deleted token must not stay valid.
package watch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// every is the time between two comparisons.
const every = 2 * time.Second

// Watcher watches groups of files. Load adds a group, and Run compares the files.
type Watcher struct {
	log     *slog.Logger
	current func(what string, current bool) // see Observe; nil: nothing is recorded
	groups  []*watchedFiles                 // if one group is loaded after another, it also comes later in this list
	working sync.WaitGroup                  // counts the groups that are being compared or loaded

	mu sync.Mutex // guards over and again of all groups
}

// LoadedFiles is a group of files, with the function that loads them.
type LoadedFiles struct {
	What  string // the unique name of the group, which the log shows
	Paths []string
	// Load loads the files. Calls of Load do not overlap. When Run calls it, its context ends when
	// the context of Run ends.
	Load func(context.Context) error
	// After is the What of a group that was added earlier, or "". If both groups have changed, the
	// earlier group is loaded first.
	After string
	// Checks means that Load only checks what other groups have loaded. Its success says nothing about whether the files are in use,
	// so it is logged at level debug, and is not observed.
	Checks bool
}

// watchedFiles is a group with the state of its content. Only one goroutine at a time compares and
// loads it.
type watchedFiles struct {
	LoadedFiles
	after  *watchedFiles // the group named After, or nil
	loaded contentDigest // the digest at the last load, even if the load failed
	seen   contentDigest // digest at the last comparison

	over  chan struct{} // closed when the group is no longer being compared or loaded; nil when it is not
	again bool          // load the group once more before closing over
}

// contentDigest is a digest of the content and the modes of files.
type contentDigest [sha256.Size]byte

// New returns a watcher without files.
func New(log *slog.Logger) *Watcher { return &Watcher{log: log} }

// Observe makes the watcher call current with each group: at once with the groups that Load has
// added, and then after each load, with whether it succeeded. It must not be called after Run.
func (w *Watcher) Observe(current func(what string, current bool)) {
	w.current = current
	for _, g := range w.groups {
		w.observed(g, true)
	}
}

// observed records the result of a load.
func (w *Watcher) observed(g *watchedFiles, current bool) {
	if w.current != nil && !g.Checks {
		w.current(g.What, current)
	}
}

// Load loads a group of files. If that succeeds, Run loads the group again whenever the content or
// mode of one of its files changes. Load must not be called after Run.
func (w *Watcher) Load(ctx context.Context, f LoadedFiles) error {
	now := digestOf(f.Paths) // computed before the load, so that the next comparison notices a change made during the load
	if err := f.Load(ctx); err != nil {
		return err
	}
	g := &watchedFiles{LoadedFiles: f, loaded: now, seen: now}
	for _, other := range w.groups {
		if other.What == f.After {
			g.after = other
		}
	}
	w.groups = append(w.groups, g)
	w.observed(g, true)
	return nil
}

// Run compares the files at intervals. After each signal, it immediately loads all groups, even if
// their files have not changed or are still being written. Run returns after ctx has ended and all
// running loads have returned.
func (w *Watcher) Run(ctx context.Context, signals <-chan os.Signal) {
	defer w.working.Wait()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.compare(ctx)
		case <-signals:
			w.loadAll(ctx)
		}
	}
}

// compare starts a comparison of each group that is not being compared or loaded at this time.
func (w *Watcher) compare(ctx context.Context) {
	for _, g := range w.groups {
		w.begin(ctx, g, false)
	}
}

// loadAll starts a load of each group. A group that is being compared or loaded at this time is
// loaded afterwards, because a running load may have read the files before they changed.
func (w *Watcher) loadAll(ctx context.Context) {
	for _, g := range w.groups {
		w.begin(ctx, g, true)
	}
}

// begin starts a goroutine that compares a group. The goroutine loads the group if it has changed.
// If anyway is set, it loads the group even if it has not changed.
func (w *Watcher) begin(ctx context.Context, g *watchedFiles, anyway bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.over != nil {
		g.again = g.again || anyway
		return
	}
	g.over = make(chan struct{})
	w.working.Go(func() {
		w.update(ctx, g, anyway)
		for w.goesOn(g) {
			w.update(ctx, g, true)
		}
	})
}

// goesOn reports whether a group must be loaded once more. If not, goesOn closes the group's
// channel over.
func (w *Watcher) goesOn(g *watchedFiles) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.again {
		g.again = false
		return true
	}
	close(g.over)
	g.over = nil
	return false
}

// update compares a group. It loads the group if anyway is set, or if the content has changed since
// the last load but not since the last comparison.
func (w *Watcher) update(ctx context.Context, g *watchedFiles, anyway bool) {
	now := digestOf(g.Paths)
	settled := now == g.seen
	g.seen = now
	if !anyway && (!settled || now == g.loaded) {
		return
	}
	w.waitFor(ctx, g.after)
	if ctx.Err() == nil {
		w.reload(ctx, g, now)
	}
}

// waitFor waits until a group is no longer being compared or loaded, or ctx ends.
func (w *Watcher) waitFor(ctx context.Context, g *watchedFiles) {
	if g == nil {
		return
	}
	w.mu.Lock()
	over := g.over
	w.mu.Unlock()
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// reload loads a group, and logs the result. now is the current digest of the group's content.
func (w *Watcher) reload(ctx context.Context, g *watchedFiles, now contentDigest) {
	g.loaded = now
	err := g.Load(ctx)
	switch {
	case err == nil && g.Checks:
		w.log.Debug("changed files were checked", "what", g.What, "files", g.Paths)
	case err == nil:
		w.observed(g, true)
		w.log.Info("changed files are in use", "what", g.What, "files", g.Paths)
	case ctx.Err() == nil: // otherwise the server is shutting down
		w.observed(g, false)
		w.log.Warn("changed files cannot be used: the previous content stays in use", "what", g.What, "files", g.Paths, "error", err)
	}
}

// digestOf returns the digest of files. Instead of the content of a file that is missing or cannot
// be read, the digest contains the error.
func digestOf(paths []string) (out contentDigest) {
	sum := sha256.New()
	for _, path := range paths {
		if err := addTo(sum, path); err != nil {
			_, _ = fmt.Fprintf(sum, "error %q", err) // writing to a digest never fails
		}
	}
	sum.Sum(out[:0])
	return out
}

// addTo adds a file to a digest.
func addTo(sum io.Writer, path string) error {
	stat, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !stat.Mode().IsRegular() { // opening it could block
		return fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	content := sha256.New()
	if _, err := io.Copy(content, file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sum, "%q %s %x\n", path, stat.Mode(), content.Sum(nil))
	return err
}
