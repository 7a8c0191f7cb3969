package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/cmd/penstock/webserver"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
)

// Listen binds the address of a setting. If other machines can reach the address, Listen requires
// TLS and credentials, or --insecure. If they can reach the address that serves streams, it also
// requires a key file for tickets.
func (g *Guard) Listen(ctx context.Context, setting, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, config.SocketScheme); ok {
		return socket.Listen(ctx, socket.Streams, path)
	}
	resolved, err := resolve(setting, address)
	if err != nil {
		return nil, err
	}
	if !resolved.IP.IsLoopback() {
		if err := g.checkOpen(setting, address); err != nil {
			return nil, err
		}
	}
	return bind(ctx, setting, address, resolved)
}

// resolve returns the address of a setting in numbers.
func resolve(setting, address string) (*net.TCPAddr, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.InvalidField(setting, "%q is not of the form host:port", fault.RedactURI(address))
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fault.InvalidField(setting, "host %q has no address: %v", host, err)
	}
	return resolved, nil
}

// bind binds the address of a setting.
func bind(ctx context.Context, setting, address string, resolved *net.TCPAddr) (net.Listener, error) {
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

// checkOpen checks the protection of an address that other machines can reach. It returns an error
// if TLS, credentials or the key file for tickets are missing. With --insecure, missing TLS or
// credentials are not an error; checkOpen logs what is missing, and what the address exposes for
// this reason. The key file is required even with --insecure.
func (g *Guard) checkOpen(setting, address string) error {
	var missing, opens []string
	if g.certificates == nil {
		missing, opens = append(missing, "TLS"), append(opens, "data can be read and changed in transit")
	}
	if !g.authenticates() {
		missing, opens = append(missing, "credentials"), append(opens, map[string]string{
			"listen":  "every program that reaches the address may read all datasets, or those that the policy allows to all clients",
			"metrics": "every program that reaches the address may read metrics, and profiles if pprof is on",
		}[setting])
	}
	switch {
	case len(missing) > 0 && !g.settings.Insecure:
		return fault.InvalidField(setting, "%s can be reached from other machines, but has no %s", address, strings.Join(missing, " and no ")).
			WithRemedy("set tls_cert and tls_key, and tokens or jwt_issuer for credentials; or listen on 127.0.0.1; or add --insecure if %s", strings.Join(opens, " and "))
	case g.settings.TicketKeys == "" && setting == "listen":
		return fault.InvalidField("ticket_keys", "a server that other machines reach requires a key file for its tickets").
			WithRemedy(`make one with (umask 077; echo "k1 $(head -c 32 /dev/urandom | base64 -w 0)" > tickets.keys), and add --ticket-keys tickets.keys`)
	case len(missing) > 0:
		g.log.Warn("an address that other machines reach is insecure", "setting", setting, "address", address, "missing", missing, "opens", opens)
	}
	return nil
}

// authenticates reports whether clients need credentials.
func (g *Guard) authenticates() bool {
	return g.settings.Tokens != "" || g.issuer != nil || g.certificates != nil && g.settings.TLSClientCA != ""
}

// Handshakes returns the TLS configuration of a listener, or nil if its connections do not use TLS. Unix sockets do not use
// TLS: only processes of this user can connect to them.
func (g *Guard) Handshakes(on net.Listener) *tls.Config {
	if g.certificates == nil || on.Addr().Network() != "tcp" {
		return nil
	}
	return g.certificates.Config("h2")
}

// ListenMetrics binds the address of metrics, if it is set, and adds the metrics of the Guard. If other machines can reach the
// address, clients need the same TLS and tokens for metrics as for streams.
func (g *Guard) ListenMetrics(ctx context.Context, metrics *telemetry.Metrics) (net.Listener, http.Handler, error) {
	if g.settings.Metrics == "" {
		return nil, nil, nil
	}
	on, err := g.Listen(ctx, "metrics", g.settings.Metrics)
	if err != nil {
		return nil, nil, err
	}
	g.observe(metrics)
	handler := metrics.Handler(g.settings.Pprof)
	if at, ok := on.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		host, _, _ := net.SplitHostPort(g.settings.Metrics) // Listen has parsed the address without an error
		return on, webserver.ForLoopback(host, handler), nil
	}
	if g.certificates != nil {
		on = tls.NewListener(on, g.certificates.Config("http/1.1"))
	}
	if authenticate := g.Authenticate(); authenticate != nil {
		handler = withToken(authenticate, handler)
	}
	return on, handler, nil
}

// ListenHealth binds the address of probes, if it is set. Kubelets and load balancers send neither a certificate nor a token. The address
// needs no protection, since its only answer is whether the server is ready.
func (g *Guard) ListenHealth(ctx context.Context) (net.Listener, error) {
	const setting = "health"
	if g.settings.Health == "" {
		return nil, nil //nolint:nilnil // there is no such address
	}
	resolved, err := resolve(setting, g.settings.Health)
	if err != nil {
		return nil, err
	}
	return bind(ctx, setting, g.settings.Health, resolved)
}

// withToken passes health checks, and requests with a valid token, to next. It refuses all other
// requests.
func withToken(authenticate flight.Authenticate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == telemetry.HealthPath { // probes send no token; the answer reveals no more than gRPC's health check does
			next.ServeHTTP(w, r)
			return
		}
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") {
			token = "" // an empty token is never valid
		}
		if _, err := authenticate(token); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
