package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/owners"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
)

// Files of a private server, in its folder.
const (
	privateLog   = "server.log"
	privateSpool = "spool"
)

// A private server is gone within a second of its owner: parentPoll, exitGrace and what removing its folder takes.
const (
	parentPoll = 100 * time.Millisecond // between two looks at the parent process, or at the locks of owners
	exitGrace  = 500 * time.Millisecond // until the process exits with calls that have not ended
)

// privateServer serves its owners on sockets in a folder of its own, until they have gone. If the folder has a file of owners,
// these are the processes that hold locks in it. Otherwise, the process that started the server is the only one.
type privateServer struct {
	folder string
	parent int
	owners *owners.Owners // nil: the parent
	gone   chan struct{}  // closed when the owners have gone
	remove func()         // removes the folder, once
}

// newPrivateServer returns the private server of a folder, for the parent process. The folder must be new, since it is removed
// with all that is in it.
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

// removeFolder removes the folder. One that is shared gets another name first, since a new owner may make one of its name at
// any time. What cannot be removed is in a temporary folder.
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

// servePrivately serves on sockets in a folder until the owner has gone.
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

// checkNew checks that a folder is for this user alone, and empty but for a log and a file of owners.
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

// watch closes gone when the owners have gone: when none holds a lock, or, if the parent is the only one, when it has closed
// input, even by being killed, or when the parent is another process, while a process that it forked holds input. What has not
// ended soon after is left: the process exits.
func (s *privateServer) watch(input io.Reader) {
	if s.owners != nil {
		s.waitForOwners()
	} else {
		s.waitForParent(input)
	}
	close(s.gone)
	time.Sleep(exitGrace)
	s.remove()
	os.Exit(exitOK) // the owners, who would read the code, have gone
}

// waitForOwners returns when all owners have gone.
func (s *privateServer) waitForOwners() {
	poll := time.NewTicker(parentPoll)
	defer poll.Stop()
	for !s.owners.Gone() {
		<-poll.C
	}
}

// waitForParent returns when the parent has closed input or has gone.
func (s *privateServer) waitForParent(input io.Reader) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, input) // an error is an end, too
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

// settings returns the flags of a private server: those given, which must not say where it listens, and its own.
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

// privateOff are the settings that a private server does without unless flags give them: what protects it from other
// clients, and what only one server of a file can use.
func privateOff() map[string]string {
	off := map[string]string{"pprof": "false"} // which needs metrics
	for name := range strings.FieldsSeq("tls-cert tls-key tls-client-ca tokens jwt-issuer jwt-audience jwt-keys policy audit-log ticket-keys advertise metrics cache-dir") {
		off[name] = ""
	}
	return off
}

// load loads a config file with the settings of a private server. What spills goes to its folder, unless they name another.
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

// ended returns a channel that is closed when the owners have gone; nil for a server that has none.
func (s *privateServer) ended() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.gone
}

// clean removes the folder if the owners have gone. Otherwise, they do, who may want the log.
func (s *privateServer) clean() {
	select {
	case <-s.ended():
		s.remove()
	default:
	}
}
