package watch

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// groups is a watcher of files that a test writes. Tests run it in a synctest bubble.
type groups struct {
	*Watcher
	dir    string
	log    bytes.Buffer
	loads  map[string][]string      // loaded contents, by file
	holds  map[string]chan struct{} // by file; loads of the file wait until the channel is closed
	signal chan os.Signal
}

// newGroups returns a watcher with one group per file. The last file is loaded after the first.
func newGroups(t *testing.T, names ...string) *groups {
	t.Helper()
	g := &groups{dir: t.TempDir(), loads: map[string][]string{}, holds: map[string]chan struct{}{}, signal: make(chan os.Signal, 1)}
	g.Watcher = New(slog.New(slog.NewTextHandler(&g.log, nil)))
	for i, name := range names {
		g.write(t, name, "a")
		f := LoadedFiles{What: name, Paths: []string{filepath.Join(g.dir, name)}, Load: func(ctx context.Context) error { return g.load(ctx, name) }}
		if i == len(names)-1 {
			f.After = names[0]
		}
		require.NoError(t, g.Load(t.Context(), f))
	}
	return g
}

// run runs the watcher until the returned function is called.
func (g *groups) run(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		g.Run(ctx, g.signal)
	}()
	return func() {
		cancel()
		<-over
	}
}

func (g *groups) write(t *testing.T, name, text string) {
	t.Helper()
	write(t, filepath.Join(g.dir, name), text)
}

// load loads a file. It waits if the test holds the file.
func (g *groups) load(ctx context.Context, name string) error {
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return err
	}
	g.mu.Lock()
	hold := g.holds[name]
	g.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loads[name] = append(g.loads[name], string(text))
	return nil
}

// hold makes loads of a file wait until the returned function is called.
func (g *groups) hold(name string) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hold := make(chan struct{})
	g.holds[name] = hold
	return func() { close(hold) }
}

// loaded waits until all goroutines are blocked, and returns the contents of a file that were
// loaded.
func (g *groups) loaded(name string) []string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loads[name]
}

// soon is the time after which a change has been compared twice.
const soon = 2*every + time.Millisecond

// spec: access-7
func TestFilesAreLoadedWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(t, "policy", "tokens", "config")
		defer g.run(t)()
		release := g.hold("config")
		g.write(t, "config", "b")
		time.Sleep(soon)
		require.Equal(t, []string{"a"}, g.loaded("config"))
		g.write(t, "tokens", "b")
		g.write(t, "policy", "b")
		time.Sleep(soon)
		require.Equal(t, []string{"a", "b"}, g.loaded("tokens"))
		require.Equal(t, []string{"a", "b"}, g.loaded("policy"), "it does not wait for those that are after it")
		require.Equal(t, []string{"a"}, g.loaded("config"))
		release()
		time.Sleep(soon)
		require.Equal(t, []string{"a", "b"}, g.loaded("config"))
	})
}

// A change during a load is loaded once, after that load, with or without signals.
func TestChangesWhileFilesAreLoaded(t *testing.T) {
	for name, signals := range map[string]int{"none": 0, "one signal": 1, "many signals": 5} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroups(t, "policy", "config")
			defer g.run(t)()
			release := g.hold("config")
			g.write(t, "config", "b")
			g.signal <- syscall.SIGHUP
			require.Equal(t, []string{"a"}, g.loaded("config"))
			g.write(t, "config", "c")
			for range signals {
				g.signal <- syscall.SIGHUP
				synctest.Wait()
			}
			require.Len(t, g.loaded("policy"), 2+signals, name)
			release()
			if signals > 0 {
				require.Equal(t, []string{"a", "b", "c"}, g.loaded("config"), name) // at once
			}
			time.Sleep(10 * every)
			require.Equal(t, []string{"a", "b", "c"}, g.loaded("config"), name)
		})
	}
}

// A group is loaded after the group that it names, if both change together.
func TestFilesAreLoadedAfterOthers(t *testing.T) {
	for _, signal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroups(t, "policy", "tokens", "config")
			defer g.run(t)()
			release := g.hold("policy")
			for _, name := range []string{"policy", "tokens", "config"} {
				g.write(t, name, "b")
			}
			if signal {
				g.signal <- syscall.SIGHUP
			} else {
				time.Sleep(soon)
			}
			require.Equal(t, []string{"a", "b"}, g.loaded("tokens"))
			require.Equal(t, []string{"a"}, g.loaded("config"))
			release()
			require.Equal(t, []string{"a", "b"}, g.loaded("policy"))
			require.Equal(t, []string{"a", "b"}, g.loaded("config"))
		})
	}
}

// When Run ends, it ends all running loads, including those that wait for other groups, and logs
// none of them.
func TestRunEndsWhatItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(t, "policy", "config")
		g.hold("policy")
		end := g.run(t)
		g.signal <- syscall.SIGHUP
		synctest.Wait()
		end()
		require.Equal(t, []string{"a"}, g.loaded("policy"))
		require.Equal(t, []string{"a"}, g.loaded("config"))
		require.Empty(t, g.log.String())
	})
}
