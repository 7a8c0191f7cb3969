// Package auth protects a server. It opens the listeners, authenticates clients, and holds the
// policy that describes their rights. It reloads the files of certificates, keys, tokens and the
// policy when they change.
package auth

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cmd/penstock/jwks"
	"github.com/penstock/penstock/cmd/penstock/keyfile"
	"github.com/penstock/penstock/cmd/penstock/servertls"
	"github.com/penstock/penstock/cmd/penstock/watch"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/internal/issuer"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/tokens"
)

// Guard protects the addresses of a server with TLS and with the tokens of its clients. It also
// holds the ticket keys and the audit log.
type Guard struct {
	settings     config.Server
	log          *slog.Logger
	Watcher      *watch.Watcher
	certificates *servertls.Certificates       // nil: no TLS
	tokens       atomic.Pointer[tokens.Tokens] // the tokens that were loaded last; nil: there are no static tokens
	ticketKeys   atomic.Pointer[ticket.Keys]   // the keys that were loaded last, or a random key
	issuer       *issuer.Issuer                // nil: no JWT is accepted
	issuerKeys   *jwks.Remote                  // nil: there is no issuer, or its keys are in a file
	clock        func() time.Time
	Audits       *audit.Log // nil: no audit log
}

// Open loads the files that protect the server, and opens its audit log. The caller closes the
// Guard.
func Open(ctx context.Context, s config.Server, log *slog.Logger, clock func() time.Time, stderr io.Writer) (*Guard, error) {
	g := &Guard{settings: s, log: log, Watcher: watch.New(log), clock: clock}
	if s.TLSCert != "" {
		g.certificates = servertls.New(servertls.PairFiles{Cert: s.TLSCert, Key: s.TLSKey, ClientCA: s.TLSClientCA}, clock)
		if err := g.load(ctx, "the certificate", g.certificates.Paths(), g.certificates.Load); err != nil {
			return nil, err
		}
	}
	if err := g.openTicketKeys(ctx); err != nil {
		return nil, err
	}
	if s.Tokens != "" {
		if err := g.load(ctx, "the tokens", []string{s.Tokens}, g.loadTokens); err != nil {
			return nil, err
		}
	}
	if s.JWTIssuer != "" {
		if err := g.openIssuer(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	g.Audits, err = openAudit(s, log, clock, stderr)
	return g, err
}

// observe adds metrics of the files and keys that protect the server. It is called once, before Run.
func (g *Guard) observe(metrics *telemetry.Metrics) {
	g.Watcher.Observe(metrics.Files())
	if g.certificates != nil {
		metrics.CertificateExpiry(g.certificates.Expires)
	}
	if g.issuerKeys != nil {
		metrics.IssuerKeys(g.issuerKeys.Fetched)
	}
}

// load loads a group of files now and whenever they change. The function that is passed as load
// must not wait for anything but the file system.
func (g *Guard) load(ctx context.Context, what string, paths []string, load func() error) error {
	return g.Watcher.Load(ctx, watch.LoadedFiles{What: what, Paths: paths, Load: func(context.Context) error { return load() }})
}

// openAudit opens the audit log. It returns nil if none is configured.
func openAudit(s config.Server, log *slog.Logger, clock func() time.Time, stderr io.Writer) (*audit.Log, error) {
	o := audit.Options{Path: s.AuditLog, Stderr: stderr, Clock: clock, Logger: log}
	switch s.AuditLog {
	case "":
		return nil, nil //nolint:nilnil // a nil log writes nothing
	case config.AuditStderr:
		o.Path = ""
	}
	return audit.Open(o)
}

// Close closes the audit log. It must be called after the last call of a client has ended.
func (g *Guard) Close() { _ = g.Audits.Close() } // the audit log logs its failures itself

// openTicketKeys loads the keys that sign tickets, now and whenever their file changes. If no file
// is set, it creates a random key.
func (g *Guard) openTicketKeys(ctx context.Context) error {
	load := func() error {
		keys, err := ticketKeys(g.settings)
		if err == nil {
			g.ticketKeys.Store(keys)
		}
		return err
	}
	if g.settings.TicketKeys == "" {
		return load()
	}
	return g.load(ctx, "the ticket keys", []string{g.settings.TicketKeys}, load)
}

// TicketKeys returns the keys that sign tickets: the keys that were loaded last or, if no file is
// set, a random key.
func (g *Guard) TicketKeys() *ticket.Keys { return g.ticketKeys.Load() }

// openIssuer loads the keys of the token issuer from a file, or fetches them from a URL.
func (g *Guard) openIssuer(ctx context.Context) error {
	s := g.settings
	if !strings.Contains(s.JWTKeys, "://") {
		g.issuer = issuer.New(s.JWTIssuer, s.JWTAudience, g.clock, nil)
		return g.load(ctx, "the keys of the issuer", []string{s.JWTKeys}, func() error {
			text, err := keyfile.Read("jwt_keys", s.JWTKeys, keyfile.Public)
			if err != nil {
				return err
			}
			return g.issuer.SetKeys(text, g.clock())
		})
	}
	keys, err := jwks.New(s.JWTKeys, func(text []byte, asOf time.Time) error { return g.issuer.SetKeys(text, asOf) }, g.clock, g.log)
	if err != nil {
		return err
	}
	g.issuer, g.issuerKeys = issuer.New(s.JWTIssuer, s.JWTAudience, g.clock, keys.Want), keys
	g.issuer.LimitAge(s.JWTKeysMaxAge)
	return keys.Fetch(ctx)
}

// Run keeps all files and the issuer's keys current until ctx ends. After each signal, it reloads
// all files immediately.
func (g *Guard) Run(ctx context.Context, hangups <-chan os.Signal) {
	if g.issuerKeys != nil {
		go g.issuerKeys.Run(ctx)
	}
	g.Watcher.Run(ctx, hangups)
}

// loadTokens reads the file of static tokens.
func (g *Guard) loadTokens() error {
	text, err := keyfile.Read("tokens", g.settings.Tokens, keyfile.Public)
	if err != nil {
		return err
	}
	found, err := tokens.Parse(text)
	if err != nil {
		return fault.As(fault.Op(err, "read the tokens of %s", g.settings.Tokens))
	}
	g.tokens.Store(found)
	return nil
}

// Authenticate returns the function that checks tokens, or nil if clients need no tokens.
func (g *Guard) Authenticate() flight.Authenticate {
	if g.settings.Tokens == "" && g.issuer == nil {
		return nil
	}
	return func(token string) (identity.Caller, error) {
		static := g.tokens.Load()
		if static == nil || g.issuer != nil && !strings.HasPrefix(token, tokens.Prefix) {
			return g.issuer.Caller(token)
		}
		subject, err := static.Subject(token, g.clock())
		return identity.Caller{Subject: subject}, err
	}
}

// ticketKeys reads the keys that sign tickets. If no file is set, it creates a random key.
func ticketKeys(s config.Server) (*ticket.Keys, error) {
	if s.TicketKeys == "" {
		return ticket.RandomKeys(rand.Reader)
	}
	text, err := keyfile.Read("ticket_keys", s.TicketKeys, keyfile.Secret)
	if err != nil {
		return nil, err
	}
	keys, err := ticket.ParseKeys(text)
	if err != nil {
		return nil, fault.As(fault.Op(err, "read the ticket keys of %s", s.TicketKeys))
	}
	return keys, nil
}
