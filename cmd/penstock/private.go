package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/owners"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
)

// Files of a private server, in its folder.
const (
	privateLog   = "server.log"
	privateSpool = "spool"
)

// A private server exits at most a second after its last owner. This time consists of parentPoll,
// exitGrace, and the removal of the server's folder.
const (
	parentPoll = 100 * time.Millisecond // the time between two checks of the parent process, or of the owners' locks
	exitGrace  = 500 * time.Millisecond // how long calls may continue after the owners are gone, until the process exits
)

// privateServer serves its owners on sockets in its folder until the owners are gone. If the folder
// has a file of owners, the owners are the processes that hold locks in that file. Otherwise, the
// only owner is the process that started the server.
type privateServer struct {
	folder string
	parent int
	owners *owners.Owners // nil: the parent is the owner
	gone   chan struct{}  // closed when the owners are gone
	remove func()         // removes the folder, once
}

// newPrivateServer returns a private server for a folder. The folder must be new, because the
// server later removes the folder with everything in it.
func newPrivateServer(folder string) (*privateServer, error) {
	s := &privateServer{parent: os.Getppid(), gone: make(chan struct{})}
	var err error
	if s.folder, err = filepath.Abs(folder); err != nil {
		return nil, fault.New(fault.Invalid, "private %s: %w", folder, err)
	}
	s.remove = sync.OnceFunc(s.removeFolder)
	if err := checkNew(s.folder); err != nil {
		return nil, err
	}
	if s.owners, err = owners.Open(s.folder); err != nil {
		return nil, err
	}
	return s, nil
}

// removeFolder removes the folder. A folder with a file of owners is renamed first, since a new
// owner may create a folder of the same name at any time. Errors are ignored, because the folder is
// usually in a temporary folder.
func (s *privateServer) removeFolder() {
	folder := s.folder
	if s.owners != nil {
		folder = fmt.Sprintf("%s-%d", s.folder, os.Getpid())
		if os.Rename(s.folder, folder) != nil {
			return
		}
	}
	_ = os.RemoveAll(folder)
}

// servePrivately serves on sockets in a folder until the owners are gone.
func (p process) servePrivately(ctx context.Context, folder, file string, given map[string]string) error {
	owner, err := newPrivateServer(folder)
	if err != nil {
		return err
	}
	settings, err := owner.load(p, file, given)
	if err != nil {
		return err
	}
	go owner.watch(p.stdin)
	return p.serve(ctx, settings, func() (*config.Config, error) { return owner.load(p, file, given) }, owner)
}

// checkNew returns an error unless only this user can access the folder, and the folder contains at
// most a log and a file of owners.
func checkNew(folder string) error {
	const remedy = "name a new folder of mode 0700, such as one of mktemp -d: it is removed with the server"
	stat, err := os.Lstat(folder)
	if err != nil {
		return fault.New(fault.Invalid, "private %s: %w", folder, errors.Unwrap(err)).WithRemedy(remedy)
	}
	if !stat.IsDir() || stat.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.Invalid, "private %s: it is not a folder that only this user can enter", folder).WithRemedy(remedy)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fault.New(fault.Invalid, "private %s: %w", folder, errors.Unwrap(err)).WithRemedy(remedy)
	}
	for _, e := range entries {
		if e.Name() != privateLog && e.Name() != owners.File || e.Type()&fs.ModeType != 0 {
			return fault.New(fault.Invalid, "private %s: it has %s, and would be removed with it", folder, e.Name()).WithRemedy(remedy)
		}
	}
	return nil
}

// watch waits until the owners are gone, and then closes s.gone. If there is a file of owners, the
// owners are gone when no process holds a lock in it. Otherwise, the owner is gone when input is
// closed, or when the parent process has changed: if the parent is killed, a process that it forked
// may keep input open. After exitGrace, watch removes the folder and exits the process, even if
// calls have not ended.
func (s *privateServer) watch(input io.Reader) {
	if s.owners != nil {
		s.waitForOwners()
	} else {
		s.waitForParent(input)
	}
	close(s.gone)
	time.Sleep(exitGrace)
	s.remove()
	os.Exit(exitOK) // the owners are gone, so nothing reads the exit code
}

// waitForOwners returns when all owners are gone.
func (s *privateServer) waitForOwners() {
	poll := time.NewTicker(parentPoll)
	defer poll.Stop()
	for !s.owners.Gone() {
		<-poll.C
	}
}

// waitForParent returns when the parent has closed input or is gone.
func (s *privateServer) waitForParent(input io.Reader) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, input) // an error also means that the input has ended
	}()
	poll := time.NewTicker(parentPoll)
	defer poll.Stop()
	for os.Getppid() == s.parent {
		select {
		case <-closed:
			return
		case <-poll.C:
		}
	}
}

// settings returns the flags of a private server: the defaults of a private server, the given
// flags, and the addresses of sockets in the server's folder. It returns an error if the given
// flags set one of these addresses.
func (s *privateServer) settings(given map[string]string) (map[string]string, error) {
	out := privateOff()
	maps.Copy(out, given)
	own := map[string]string{"listen": config.SocketScheme + filepath.Join(s.folder, "server.sock"), "local-socket": ""}
	if runtime.GOOS == "linux" { // elsewhere, memory is not shared
		own["local-socket"] = filepath.Join(s.folder, "local.sock")
	}
	for name, value := range own {
		if _, taken := given[name]; taken {
			return nil, cmdline.Errorf("--private serves on sockets in its folder: leave out --%s", name)
		}
		out[name] = value
	}
	return out, nil
}

// privateOff returns the settings that are off in a private server unless flags set them. They
// protect a server from other clients, or use something that only one server of a config file can
// have, such as the address of metrics.
func privateOff() map[string]string {
	off := map[string]string{"pprof": "false"} // pprof requires metrics, which are off
	for name := range strings.FieldsSeq("tls-cert tls-key tls-client-ca tokens jwt-issuer jwt-audience jwt-keys policy audit-log ticket-keys advertise metrics health cache-dir") {
		off[name] = ""
	}
	return off
}

// load loads a config file with the settings of a private server. If no spool is set, spilled data
// is written to the server's folder.
func (s *privateServer) load(p process, file string, given map[string]string) (*config.Config, error) {
	flags, err := s.settings(given)
	if err != nil {
		return nil, err
	}
	c, err := p.load(file, flags)
	if err == nil && c.Server.Spool == "" {
		c.Server.Spool = filepath.Join(s.folder, privateSpool)
	}
	return c, err
}

// assemble assembles the engine of a server. A private server, whose owner waits for it, needs all catalogs, but a writing call may
// create one. Any other server starts while catalogs do not answer, so that a bad minute of one of them does not keep replicas down;
// but it creates none: a file that it does not find may be on a disk that is not mounted.
func (s *privateServer) assemble(ctx context.Context, c *config.Config, log *slog.Logger) (*engine.Engine, error) {
	if s != nil {
		return engine.Assemble(ctx, c, func(catalog, file string) { log.Info("a catalog was created", "catalog", catalog, "file", file) })
	}
	return engine.AssembleServer(ctx, c, func(catalog string, err error) {
		log.Warn("the catalog does not answer; its tables are unavailable until it does", "catalog", catalog, "error", err)
	})
}

// ended returns a channel that is closed when the owners are gone; nil if s is nil.
func (s *privateServer) ended() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.gone
}

// clean removes the folder if the owners are gone. Otherwise clean leaves the folder to the owners,
// because they may want to read the log.
func (s *privateServer) clean() {
	select {
	case <-s.ended():
		s.remove()
	default:
	}
}
