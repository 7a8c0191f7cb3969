package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock/penstock/cmd/penstock/jwks"
	"github.com/penstock/penstock/cmd/penstock/keyfile"
	"github.com/penstock/penstock/cmd/penstock/servertls"
	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/cmd/penstock/watch"
	"github.com/penstock/penstock/cmd/penstock/webserver"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/internal/issuer"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/tokens"
)

// entrance is how clients get to the server: the addresses, and what protects them.
type entrance struct {
	settings     config.Server
	log          *slog.Logger
	watcher      *watch.Watcher
	certificates *servertls.Certificates       // nil: no TLS
	tokens       atomic.Pointer[tokens.Tokens] // those loaded last; nil: clients need none
	ticketKeys   atomic.Pointer[flight.Keys]   // those loaded last, or random ones
	issuer       *issuer.Issuer                // nil: no JWT is accepted
	issuerKeys   *jwks.Remote                  // nil: they are in a file
	clock        func() time.Time
	audits       *audit.Log // nil: there is none
}

// openEntrance loads the files that protect the server, and opens its audit log. The caller closes it.
func (p process) openEntrance(ctx context.Context, s config.Server, log *slog.Logger) (*entrance, error) {
	clock := p.clock
	a := &entrance{settings: s, log: log, watcher: watch.New(log), clock: clock}
	if s.TLSCert != "" {
		a.certificates = servertls.New(servertls.PairFiles{Cert: s.TLSCert, Key: s.TLSKey, ClientCA: s.TLSClientCA}, clock)
		if err := a.load(ctx, "the certificate", a.certificates.Paths(), a.certificates.Load); err != nil {
			return nil, err
		}
	}
	if err := a.openTicketKeys(ctx); err != nil {
		return nil, err
	}
	if s.Tokens != "" {
		if err := a.load(ctx, "the tokens", []string{s.Tokens}, a.loadTokens); err != nil {
			return nil, err
		}
	}
	if s.JWTIssuer != "" {
		if err := a.openIssuer(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	a.audits, err = p.openAudit(s, log)
	return a, err
}

// load loads files of a kind that waits for nothing but the file system, and again whenever they change.
func (a *entrance) load(ctx context.Context, what string, paths []string, load func() error) error {
	return a.watcher.Load(ctx, watch.LoadedFiles{What: what, Paths: paths, Load: func(context.Context) error { return load() }})
}

// openAudit opens the audit log; nil if there is none.
func (p process) openAudit(s config.Server, log *slog.Logger) (*audit.Log, error) {
	o := audit.Options{Path: s.AuditLog, Stderr: p.stderr, Clock: p.clock, Logger: log}
	switch s.AuditLog {
	case "":
		return nil, nil //nolint:nilnil // a nil log writes nothing
	case config.AuditStderr:
		o.Path = ""
	}
	return audit.Open(o)
}

// close closes the audit log, after the last call.
func (a *entrance) close() { _ = a.audits.Close() } // it logs failures

// openTicketKeys loads the keys that sign tickets, or makes a random one.
func (a *entrance) openTicketKeys(ctx context.Context) error {
	load := func() error {
		keys, err := ticketKeys(a.settings)
		if err == nil {
			a.ticketKeys.Store(keys)
		}
		return err
	}
	if a.settings.TicketKeys == "" {
		return load()
	}
	return a.load(ctx, "the ticket keys", []string{a.settings.TicketKeys}, load)
}

// openIssuer gets the keys of the issuer of tokens.
func (a *entrance) openIssuer(ctx context.Context) error {
	s := a.settings
	if !strings.Contains(s.JWTKeys, "://") {
		a.issuer = issuer.New(s.JWTIssuer, s.JWTAudience, a.clock, nil)
		return a.load(ctx, "the keys of the issuer", []string{s.JWTKeys}, func() error {
			text, err := keyfile.Read("jwt_keys", s.JWTKeys, keyfile.Public)
			if err != nil {
				return err
			}
			return a.issuer.SetKeys(text, a.clock())
		})
	}
	keys, err := jwks.New(s.JWTKeys, func(text []byte, asOf time.Time) error { return a.issuer.SetKeys(text, asOf) }, a.clock, a.log)
	if err != nil {
		return err
	}
	a.issuer, a.issuerKeys = issuer.New(s.JWTIssuer, s.JWTAudience, a.clock, keys.Want), keys
	a.issuer.LimitAge(s.JWTKeysMaxAge)
	return keys.Fetch(ctx)
}

// run keeps all files and the keys of the issuer current until ctx ends. Each signal loads the files at once.
func (a *entrance) run(ctx context.Context, hangups <-chan os.Signal) {
	if a.issuerKeys != nil {
		go a.issuerKeys.Run(ctx)
	}
	a.watcher.Run(ctx, hangups)
}

// loadTokens reads the tokens that clients may send.
func (a *entrance) loadTokens() error {
	text, err := keyfile.Read("tokens", a.settings.Tokens, keyfile.Public)
	if err != nil {
		return err
	}
	found, err := tokens.Parse(text)
	if err != nil {
		return fault.As(fault.Op(err, "read the tokens of %s", a.settings.Tokens))
	}
	a.tokens.Store(found)
	return nil
}

// authenticate returns the check of tokens; nil: clients need none.
func (a *entrance) authenticate() flight.Authenticate {
	if a.settings.Tokens == "" && a.issuer == nil {
		return nil
	}
	return func(token string) (identity.Caller, error) {
		static := a.tokens.Load()
		if static == nil || a.issuer != nil && !strings.HasPrefix(token, tokens.Prefix) {
			return a.issuer.Caller(token)
		}
		subject, err := static.Subject(token, a.clock())
		return identity.Caller{Subject: subject}, err
	}
}

// listen binds the address of a setting. An address that other machines reach requires TLS and credentials, or --insecure.
func (a *entrance) listen(ctx context.Context, setting, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, config.SocketScheme); ok {
		return socket.Listen(ctx, socket.Streams, path)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.InvalidField(setting, "%q is not of the form host:port", fault.RedactURI(address))
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fault.InvalidField(setting, "host %q has no address: %v", host, err)
	}
	if !resolved.IP.IsLoopback() {
		if err := a.checkOpen(setting, address); err != nil {
			return nil, err
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", resolved.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.New(fault.Unavailable, "%s %s: another program uses that port", setting, address).
			WithRemedy("stop the other program, or choose another port; port 0 takes a free one")
	case errors.Is(err, syscall.EACCES):
		return nil, fault.New(fault.Forbidden, "%s %s: this user may not use that port", setting, address).
			WithRemedy("choose port 1024 or above")
	case err != nil:
		return nil, fault.New(fault.Unavailable, "%s %s: %w", setting, address, err)
	}
	return listener, nil
}

// checkOpen refuses an address that other machines reach if something does not protect it, and logs what --insecure opens.
func (a *entrance) checkOpen(setting, address string) error {
	var missing, opens []string
	if a.certificates == nil {
		missing, opens = append(missing, "TLS"), append(opens, "what is sent can be read and changed on its way")
	}
	if !a.authenticates() {
		missing, opens = append(missing, "credentials"), append(opens, map[string]string{
			"listen":  "every program that reaches the address may read all datasets, or those that the policy has for all clients",
			"metrics": "every program that reaches the address may read metrics, and profiles if pprof is on",
		}[setting])
	}
	switch {
	case len(missing) > 0 && !a.settings.Insecure:
		return fault.InvalidField(setting, "%s can be reached from other machines, and has no %s", address, strings.Join(missing, " and no ")).
			WithRemedy("set tls_cert and tls_key, and tokens or jwt_issuer for credentials; or listen on 127.0.0.1; or add --insecure if %s", strings.Join(opens, " and "))
	case a.settings.TicketKeys == "" && setting == "listen":
		return fault.InvalidField("ticket_keys", "a server that other machines reach requires a key file for its tickets").
			WithRemedy(`make one: (umask 077; echo "k1 $(head -c 32 /dev/urandom | base64 -w 0)" > tickets.keys); and add --ticket-keys tickets.keys`)
	case len(missing) > 0:
		a.log.Warn("an address that other machines reach is insecure", "setting", setting, "address", address, "missing", missing, "opens", opens)
	}
	return nil
}

// authenticates reports whether clients need credentials.
func (a *entrance) authenticates() bool {
	return a.settings.Tokens != "" || a.issuer != nil || a.certificates != nil && a.settings.TLSClientCA != ""
}

// handshakes returns the configuration of the handshakes of a listener; nil: there are none. Sockets have none: only
// processes of this user can connect to them.
func (a *entrance) handshakes(on net.Listener) *tls.Config {
	if a.certificates == nil || on.Addr().Network() != "tcp" {
		return nil
	}
	return a.certificates.Config("h2")
}

// listenMetrics binds the address of metrics, if it is set. If other machines reach it, the metrics are protected as the
// server is.
func (a *entrance) listenMetrics(ctx context.Context, metrics *telemetry.Metrics) (net.Listener, http.Handler, error) {
	if a.settings.Metrics == "" {
		return nil, nil, nil
	}
	on, err := a.listen(ctx, "metrics", a.settings.Metrics)
	if err != nil {
		return nil, nil, err
	}
	handler := metrics.Handler(a.settings.Pprof)
	if at, ok := on.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		host, _, _ := net.SplitHostPort(a.settings.Metrics) // listen has parsed it
		return on, webserver.ForLoopback(host, handler), nil
	}
	if a.certificates != nil {
		on = tls.NewListener(on, a.certificates.Config("http/1.1"))
	}
	if authenticate := a.authenticate(); authenticate != nil {
		handler = withToken(authenticate, handler)
	}
	return on, handler, nil
}

// withToken answers requests that have a token.
func withToken(authenticate flight.Authenticate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") {
			token = "" // which is not a token
		}
		if _, err := authenticate(token); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
