// Package watch loads files again when they change.
//
// It compares the content of the files every two seconds. Notifications of the operating system were considered: Kubernetes
// replaces a symbolic link to a folder, editors rename, network file systems notify of nothing; their content tells all of
// these alike, and the files are small.
//
// A change is loaded once the content was the same in two comparisons, so that a file, or a certificate and its key, that is
// being written is not loaded halfway. If the new content cannot be loaded, that is logged, and what was loaded before stays
// in use until the content changes again.
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

// Watcher watches files. It is safe for concurrent use.
type Watcher struct {
	log *slog.Logger

	mu     sync.Mutex
	groups []*watchedFiles
}

// watchedFiles is the files that are loaded together.
type watchedFiles struct {
	what   string // for the log
	paths  []string
	load   func() error
	loaded contentDigest // of the content when it was last loaded, successfully or not
	seen   contentDigest // of the content in the last comparison
}

// contentDigest is a digest of the content and the modes of files.
type contentDigest [sha256.Size]byte

// New returns a watcher of no files.
func New(log *slog.Logger) *Watcher { return &Watcher{log: log} }

// Load loads files by calling load, whose error it returns. If there is none, Run calls load again after the content or the
// mode of one of the files has changed.
func (w *Watcher) Load(what string, paths []string, load func() error) error {
	now := digestOf(paths) // before load: a change during load is seen by the next comparison
	if err := load(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = append(w.groups, &watchedFiles{what: what, paths: paths, load: load, loaded: now, seen: now})
	return nil
}

// Run compares the files at intervals until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.Compare()
		}
	}
}

// Compare compares the files once.
func (w *Watcher) Compare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		now := digestOf(g.paths)
		settled := now == g.seen
		g.seen = now
		if settled && now != g.loaded {
			w.reload(g, now)
		}
	}
}

// LoadAll loads all files now, whether they have changed or not, and whether others are writing
// them or not.
func (w *Watcher) LoadAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		g.seen = digestOf(g.paths)
		w.reload(g, g.seen)
	}
}

// reload loads files whose content has a digest, and logs what came of it. w.mu is held.
func (w *Watcher) reload(g *watchedFiles, now contentDigest) {
	g.loaded = now
	if err := g.load(); err != nil {
		w.log.Warn("changed files cannot be used: the previous content stays in use", "what", g.what, "files", g.paths, "error", err)
		return
	}
	w.log.Info("changed files are in use", "what", g.what, "files", g.paths)
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
