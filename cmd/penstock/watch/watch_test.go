package watch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// watched is a watcher of one file, with the loaded contents and the log.
type watched struct {
	*Watcher
	path   string
	loaded []string
	inUse  []bool // the results that Observe received
	err    error  // error that the next loads return
	log    bytes.Buffer
}

func watch(t *testing.T, path, text string) *watched {
	t.Helper()
	w := &watched{path: path}
	w.Watcher = New(slog.New(slog.NewTextHandler(&w.log, nil)))
	write(t, path, text)
	require.NoError(t, w.Load(t.Context(), LoadedFiles{What: "words", Paths: []string{path}, Load: func(context.Context) error {
		if w.err != nil {
			return w.err
		}
		text, err := os.ReadFile(path)
		w.loaded = append(w.loaded, string(text))
		return err
	}}))
	w.Observe(func(what string, current bool) {
		require.Equal(t, "words", what)
		w.inUse = append(w.inUse, current)
	})
	return w
}

// Compare compares the file, and returns after a resulting load has ended.
func (w *watched) Compare() {
	w.compare(context.Background())
	w.working.Wait()
}

// LoadAll loads the file as after a signal, and returns after the load has ended.
func (w *watched) LoadAll() {
	w.loadAll(context.Background())
	w.working.Wait()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestChangedFileIsLoadedOnceItIsTheSameTwice(t *testing.T) {
	w := watch(t, filepath.Join(t.TempDir(), "words"), "a")
	w.Compare()
	w.Compare()
	require.Equal(t, []string{"a"}, w.loaded)
	write(t, w.path, "half")
	w.Compare()
	write(t, w.path, "whole")
	w.Compare()
	require.Equal(t, []string{"a"}, w.loaded, "while it changes, nothing is loaded")
	w.Compare()
	w.Compare()
	require.Equal(t, []string{"a", "whole"}, w.loaded)
	require.Contains(t, w.log.String(), "in use")
}

func TestFailedLoadIsLoggedOnceAndRepeatedAfterTheNextChange(t *testing.T) {
	w := watch(t, filepath.Join(t.TempDir(), "words"), "a")
	w.err = errors.New("no such word")
	write(t, w.path, "b")
	for range 4 {
		w.Compare()
	}
	require.Equal(t, 1, bytes.Count(w.log.Bytes(), []byte("no such word")))
	require.Equal(t, []bool{true, false}, w.inUse)
	w.err = nil
	write(t, w.path, "c")
	w.Compare()
	w.Compare()
	require.Equal(t, []string{"a", "c"}, w.loaded)
}

// A group that only checks files that another group has loaded does not say that they are in use.
func TestCheckedFilesAreNotSaidToBeInUse(t *testing.T) {
	w := watch(t, filepath.Join(t.TempDir(), "words"), "a")
	checked := 0
	require.NoError(t, w.Load(t.Context(), LoadedFiles{What: "the spelling", Paths: []string{w.path}, After: "words", Checks: true, Load: func(context.Context) error {
		checked++
		return nil
	}}))
	w.err = errors.New("no such word")
	write(t, w.path, "b")
	w.Compare()
	w.Compare()
	require.Equal(t, 2, checked)
	require.Equal(t, []bool{true, false}, w.inUse)
	require.Contains(t, w.log.String(), "no such word")
	require.NotContains(t, w.log.String(), "are in use")
	require.NotContains(t, w.log.String(), "spelling")
}

func TestReplacedLinksModesAndMissingFilesAreChanges(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "words"), version)
	}
	link := func(to string) { // as Kubernetes does
		require.NoError(t, os.Symlink(to, filepath.Join(dir, "new")))
		require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "now")))
	}
	link("v1")
	w := watch(t, filepath.Join(dir, "now", "words"), "v1")
	link("v2")
	w.Compare()
	w.Compare()
	require.Equal(t, []string{"v1", "v2"}, w.loaded)
	require.NoError(t, os.Chmod(w.path, 0o400))
	w.Compare()
	w.Compare()
	require.Equal(t, []string{"v1", "v2", "v2"}, w.loaded)
	require.NoError(t, os.Remove(w.path))
	w.err = os.ErrNotExist
	w.Compare()
	w.Compare()
	require.Contains(t, w.log.String(), "cannot be used")
}

func TestFailureOfTheFirstLoadIsReturned(t *testing.T) {
	w := New(slog.New(slog.DiscardHandler))
	err := w.Load(t.Context(), LoadedFiles{What: "words", Load: func(context.Context) error { return os.ErrNotExist }})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Empty(t, w.groups)
}

// TestLoadAllLoadsFilesAtOnce checks that LoadAll loads files whether they changed or not, and that
// later comparisons do not load them again.
func TestLoadAllLoadsFilesAtOnce(t *testing.T) {
	w := watch(t, filepath.Join(t.TempDir(), "words"), "a")
	w.LoadAll()
	write(t, w.path, "b")
	w.LoadAll()
	w.Compare()
	w.Compare()
	require.Equal(t, []string{"a", "a", "b"}, w.loaded)
	w.err = errors.New("no such word")
	w.LoadAll()
	require.Contains(t, w.log.String(), "no such word")
}
