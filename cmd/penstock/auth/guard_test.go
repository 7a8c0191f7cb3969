package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened returns the guard of settings, and its log.
func opened(t *testing.T, s config.Server) (*Guard, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	g, err := Open(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil)), time.Now, io.Discard)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g, &log
}

// file writes a file, and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// issued returns a token of a subject, and its line of the server's file.
func issued(t *testing.T, subject string, expires time.Time) (secret, line string) {
	t.Helper()
	secret, line, err := tokens.New(rand.Reader, subject, expires)
	require.NoError(t, err)
	return secret, line + "\n"
}

// ticketKeyFile returns the path of a file with a ticket key.
func ticketKeyFile(t *testing.T) string {
	t.Helper()
	return file(t, "tickets.keys", "k1 "+strings.Repeat("QUJD", 16)+"\n")
}

// secured adds a certificate to settings.
func secured(t *testing.T, s config.Server) config.Server {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, certtest.Make(folder, []string{"localhost"}, time.Now(), time.Hour))
	s.TLSCert, s.TLSKey = filepath.Join(folder, certtest.ServerCert), filepath.Join(folder, certtest.ServerKey)
	if s.TLSClientCA != "" {
		s.TLSClientCA = filepath.Join(folder, certtest.CA)
	}
	return s
}

// A server without credentials asks for none. One with a file of tokens accepts those that have not expired, and no others; after
// the file has changed, it accepts those of the new content, or those before if it cannot be read.
//
// spec: access-7
func TestTokensOfClients(t *testing.T) {
	g, _ := opened(t, config.Server{})
	require.Nil(t, g.Authenticate())
	require.NotNil(t, g.TicketKeys(), "a random key")

	trainers, first := issued(t, "trainers", time.Time{})
	old, expired := issued(t, "old", time.Now().Add(-time.Minute))
	sweeps, second := issued(t, "sweeps", time.Time{})
	path := file(t, "server.tokens", first+expired)
	g, _ = opened(t, config.Server{Tokens: path})
	authenticate := g.Authenticate()
	accepts := func(token string) bool {
		who, err := authenticate(token)
		if err == nil {
			require.NotEmpty(t, who.Subject)
			return true
		}
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
		require.Empty(t, who.Subject)
		return false
	}
	require.True(t, accepts(trainers))
	for _, token := range []string{"", tokens.Prefix, old, sweeps, "eyJhbGciOiJub25lIn0.e30."} {
		require.False(t, accepts(token), token)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		hangups := make(chan os.Signal)
		go g.Run(ctx, hangups)
		change := func(text string) {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			hangups <- syscall.SIGHUP
			synctest.Wait()
		}
		change("trainers\n")
		require.True(t, accepts(trainers) && !accepts(sweeps), "the file is invalid")
		change(second)
		require.True(t, accepts(sweeps) && !accepts(trainers))
		end()
		synctest.Wait()
	})
	_, err := Open(t.Context(), config.Server{Tokens: file(t, "server.tokens", "trainers\n")}, slog.New(slog.DiscardHandler), time.Now, io.Discard)
	require.ErrorContains(t, err, "read the tokens of")
}

// An address that other machines can reach needs TLS and credentials, or insecure; the address of streams needs a file of
// ticket keys too.
//
// spec: access-3
func TestAddressesThatOthersReach(t *testing.T) {
	_, line := issued(t, "trainers", time.Time{})
	tokenFile, keys := file(t, "server.tokens", line), ticketKeyFile(t)
	for name, c := range map[string]struct {
		settings         config.Server
		setting, address string
		says, logs       string
	}{
		"nothing":                        {config.Server{}, "listen", "0.0.0.0:0", "has no TLS and no credentials", ""},
		"nothing, on this machine":       {config.Server{}, "listen", "127.0.0.1:0", "", ""},
		"TLS":                            {secured(t, config.Server{TicketKeys: keys}), "listen", "0.0.0.0:0", "has no credentials", ""},
		"tokens":                         {config.Server{Tokens: tokenFile, TicketKeys: keys}, "listen", "0.0.0.0:0", "has no TLS", ""},
		"TLS and tokens":                 {secured(t, config.Server{Tokens: tokenFile, TicketKeys: keys}), "listen", "0.0.0.0:0", "", ""},
		"TLS and tokens, no ticket keys": {secured(t, config.Server{Tokens: tokenFile}), "listen", "0.0.0.0:0", "requires a key file for its tickets", ""},
		"mutual TLS":                     {secured(t, config.Server{TLSClientCA: "CA", TicketKeys: keys}), "listen", "0.0.0.0:0", "", ""},
		"insecure":                       {config.Server{Insecure: true, TicketKeys: keys}, "listen", "0.0.0.0:0", "", `missing="[TLS credentials]"`},
		"insecure, no ticket keys":       {config.Server{Insecure: true}, "listen", "0.0.0.0:0", "requires a key file for its tickets", ""},
		"insecure with TLS":              {secured(t, config.Server{Insecure: true, TicketKeys: keys}), "listen", "0.0.0.0:0", "", "missing=[credentials]"},
		"metrics":                        {config.Server{}, "metrics", "0.0.0.0:0", "has no TLS and no credentials", ""},
		"insecure metrics":               {config.Server{Insecure: true}, "metrics", "0.0.0.0:0", "", "every program that reaches the address may read metrics"},
		"no port":                        {config.Server{}, "listen", "localhost", "is not of the form host:port", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, log := opened(t, c.settings)
			on, err := g.Listen(t.Context(), c.setting, c.address)
			if c.says != "" {
				require.Equal(t, fault.Invalid, fault.KindOf(err))
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			defer on.Close() //nolint:errcheck // nothing was sent
			if c.logs == "" {
				require.Empty(t, log.String())
			}
			require.Contains(t, log.String(), c.logs)
			require.Equal(t, g.certificates != nil, g.Handshakes(on) != nil)
			_, err = g.Listen(t.Context(), c.setting, on.Addr().String())
			require.ErrorContains(t, err, "another program uses that port")
		})
	}
}

// Connections over a Unix socket use no TLS.
func TestSocketsNeedNoTLS(t *testing.T) {
	g, _ := opened(t, secured(t, config.Server{}))
	on, err := g.Listen(t.Context(), "listen", config.SocketScheme+filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer on.Close() //nolint:errcheck // nothing was sent
	require.Nil(t, g.Handshakes(on))
}

// Metrics that other machines can reach need a token. Those on the loopback need none, and answer to its names alone.
//
// spec: access-3
func TestMetricsNeedATokenOfOtherMachines(t *testing.T) {
	secret, line := issued(t, "trainers", time.Time{})
	s := secured(t, config.Server{Tokens: file(t, "server.tokens", line)})
	for address, want := range map[string]map[[2]string]int{
		"": nil,
		"0.0.0.0:0": {
			{"loader:80/metrics", ""}: http.StatusUnauthorized, {"loader:80/metrics", "Bearer " + tokens.Prefix}: http.StatusUnauthorized,
			{"loader:80/metrics", "Basic " + secret}: http.StatusUnauthorized, {"loader:80/metrics", "bearer " + secret}: http.StatusOK,
			{"loader:80" + telemetry.HealthPath, ""}: http.StatusOK,
		},
		"127.0.0.1:0": {{"127.0.0.1/metrics", ""}: http.StatusOK, {"loader/metrics", ""}: http.StatusMisdirectedRequest},
	} {
		s.Metrics = address
		g, _ := opened(t, s)
		metrics := telemetry.NewMetrics("test")
		metrics.SetReady(true)
		on, handler, err := g.ListenMetrics(t.Context(), metrics)
		require.NoError(t, err)
		if address == "" {
			require.Nil(t, on)
			continue
		}
		require.NoError(t, on.Close())
		for asked, code := range want {
			host, path, _ := strings.Cut(asked[0], "/")
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+path, http.NoBody)
			request.Host = host
			request.Header.Set("Authorization", asked[1])
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			require.Equal(t, code, answer.Code, asked)
		}
	}
}

// Probes need neither TLS nor a token, also from other machines: their address has no warning.
//
// spec: access-3, status-19
func TestProbesNeedNoCredentials(t *testing.T) {
	_, line := issued(t, "trainers", time.Time{})
	g, log := opened(t, secured(t, config.Server{Tokens: file(t, "server.tokens", line), TLSClientCA: "CA", Health: "0.0.0.0:0"}))
	on, err := g.ListenHealth(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = on.Close() })
	require.IsType(t, &net.TCPListener{}, on)
	require.Empty(t, log.String())
	g.settings.Health = on.Addr().String()
	_, err = g.ListenHealth(t.Context())
	require.ErrorContains(t, err, "health "+on.Addr().String()+": another program uses that port")
	g.settings.Health = ""
	none, err := g.ListenHealth(t.Context())
	require.NoError(t, err)
	require.Nil(t, none)
}

// The audit log is a file, standard error, or none.
func TestAuditLogIsOpened(t *testing.T) {
	g, _ := opened(t, config.Server{})
	require.Nil(t, g.Audits)
	var stderr bytes.Buffer
	path := filepath.Join(t.TempDir(), "audit.log")
	for _, place := range []string{config.AuditStderr, path} {
		log, err := openAudit(config.Server{AuditLog: place}, slog.New(slog.DiscardHandler), time.Now, &stderr)
		require.NoError(t, err)
		log.Add(audit.Line{Event: audit.Refusal, Subject: place})
		require.NoError(t, log.Close())
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), path)
	require.Contains(t, stderr.String(), config.AuditStderr)
}

// loopback returns a listener on the loopback.
func loopback(t *testing.T, g *Guard) net.Listener {
	t.Helper()
	on, err := g.Listen(t.Context(), "listen", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = on.Close() })
	return on
}
