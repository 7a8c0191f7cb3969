// Package watch loads files again when they change.
//
// It compares the content of the files every two seconds. Notifications of the operating system were considered: Kubernetes
// replaces a symbolic link to a folder, editors rename files, and network file systems send no notifications. Comparing
// contents covers all of these, and the files are small.
//
// A change is loaded once the content was the same in two comparisons, so that a file, or a certificate and its key, that is
// being written is not loaded halfway. If the new content cannot be loaded, that is logged, and the previous content stays
// in use until the files change again.
//
// Groups of files are compared and loaded apart: a load may wait for a catalog for a minute,
// and a token that was deleted must not be valid until then.
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

// Watcher watches files: they are added by Load, and then compared by Run.
type Watcher struct {
	log     *slog.Logger
	groups  []*watchedFiles // those that others are after come first
	working sync.WaitGroup  // of groups that are compared or loaded

	mu sync.Mutex // of the groups' over and again
}

// LoadedFiles is a group of files, and how they are loaded.
type LoadedFiles struct {
	What  string // for the log; it is unique
	Paths []string
	// Load loads the files. Its calls do not overlap. Its context ends with that of Run.
	Load func(context.Context) error
	// After names another group, which was added before; "": none. If both have changed, this one is loaded after it.
	After string
}

// watchedFiles is a group and what was loaded of it. One goroutine at a time compares and loads it.
type watchedFiles struct {
	LoadedFiles
	after  *watchedFiles // nil: none
	loaded contentDigest // of the content when it was last loaded, successfully or not
	seen   contentDigest // of the content in the last comparison

	over  chan struct{} // is closed when the group is not compared or loaded any more; nil: it is not
	again bool          // load it once more then
}

// contentDigest is a digest of the content and the modes of files.
type contentDigest [sha256.Size]byte

// New returns a watcher of no files.
func New(log *slog.Logger) *Watcher { return &Watcher{log: log} }

// Load loads a group of files, and returns the error of loading. If there is none, Run loads the group again after the
// content or the mode of one of its files has changed. Load must not be called after Run.
func (w *Watcher) Load(ctx context.Context, f LoadedFiles) error {
	now := digestOf(f.Paths) // before the load: a change during it is seen by the next comparison
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
	return nil
}

// Run compares the files at intervals, and loads all of them after each signal, whether they have changed or not, and whether
// others are writing them or not. It returns when ctx has ended and what was begun has, too.
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

// compare begins to compare all groups. It skips those that are being loaded.
func (w *Watcher) compare(ctx context.Context) {
	for _, g := range w.groups {
		w.begin(ctx, g, false)
	}
}

// loadAll begins to load all groups. Those that are being loaded are loaded once more after that: it may have read their files
// before they changed.
func (w *Watcher) loadAll(ctx context.Context) {
	for _, g := range w.groups {
		w.begin(ctx, g, true)
	}
}

// begin begins to compare a group, or to load it in any case.
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

// goesOn reports whether a group must be loaded once more. If not, its work is over.
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

// update compares a group, and loads it if it has changed, or anyway.
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

// waitFor waits until a group is not compared or loaded, or ctx ends.
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

// reload loads a group whose content has a digest, and logs what came of it.
func (w *Watcher) reload(ctx context.Context, g *watchedFiles, now contentDigest) {
	g.loaded = now
	err := g.Load(ctx)
	switch {
	case err == nil:
		w.log.Info("changed files are in use", "what", g.What, "files", g.Paths)
	case ctx.Err() == nil: // else the server ends
		w.log.Warn("changed files cannot be used: the previous content stays in use", "what", g.What, "files", g.Paths, "error", err)
	}
}

// digestOf returns the digest of files, some of which may not exist.
func digestOf(paths []string) (out contentDigest) {
	sum := sha256.New()
	for _, path := range paths {
		if err := addTo(sum, path); err != nil {
			_, _ = fmt.Fprintf(sum, "error %q", err) // a digest takes everything
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
	if !stat.Mode().IsRegular() { // an open could wait
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
