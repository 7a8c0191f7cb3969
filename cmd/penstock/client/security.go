package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/hostport"
)

// Security names the files that authenticate the server and this client. Certificates and keys are
// in PEM form; "" means no file.
type Security struct {
	CA        string // the CA of the server's certificate; "": the CAs that the system trusts
	Cert, Key string // the certificate of this client, and its key
	Token     string // the file with the token of this client; it is read again for each call
	// Passed means that calls carry the tokens of WithToken.
	Passed bool
}

// options returns the options to dial a gRPC target, and the TLS configuration of the connection.
// The TLS configuration is nil if the connection is not encrypted.
func (s Security) options(target string, encrypted bool) ([]grpc.DialOption, *tls.Config, error) {
	if !encrypted && s.CA+s.Cert+s.Key != "" {
		return nil, nil, fault.InvalidField("uri", "connects without TLS, and certificates are given").WithRemedy("write grpc+tls://host:port")
	}
	if !encrypted && (s.Token != "" || s.Passed) && !staysHere(target) {
		return nil, nil, fault.InvalidField("uri", "a token is not sent without TLS to another machine: it could be read on its way").
			WithRemedy("write grpc+tls://%s", target)
	}
	var config *tls.Config
	transport := insecure.NewCredentials()
	if encrypted {
		var err error
		if config, err = s.config(); err != nil {
			return nil, nil, err
		}
		transport = credentials.NewTLS(config)
	}
	out := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if s.Token != "" {
		out = append(out, grpc.WithPerRPCCredentials(tokenFile(s.Token)))
	}
	return out, config, nil
}

// staysHere reports whether data sent to a gRPC target stays on this machine.
func staysHere(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(target)
	return err == nil && hostport.IsLoopback(host)
}

// tokenFile is the path of a file with a token.
type tokenFile string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, "read the token: "+err.Error())
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(text))}, nil
}

// WithToken returns a context whose calls carry a bearer token. It is for clients whose Security has no token.
func WithToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. It returns false because
// Security.options has already checked this: without TLS, a token may be sent only to this machine.
func (tokenFile) RequireTransportSecurity() bool { return false }

// config returns the TLS configuration.
func (s Security) config() (*tls.Config, error) {
	var given PEM
	var err error
	if s.CA != "" {
		if given.CA, err = os.ReadFile(s.CA); err != nil {
			return nil, fault.New(fault.Invalid, "read the CA of --tls-ca: %w", err)
		}
	}
	config, err := given.config()
	if err != nil || s.CA != "" && len(given.CA) == 0 { // an empty file is not the system's CAs
		return nil, fault.InvalidField("--tls-ca", "%s has no certificate in PEM form", s.CA)
	}
	if s.Cert != "" || s.Key != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "read the certificate of --tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// PEM has certificates and a key in PEM form. Empty fields are not used, as in Security.
type PEM struct{ CA, Cert, Key []byte }

// config returns the TLS configuration.
func (p PEM) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(p.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(p.CA) {
			return nil, fault.New(fault.Invalid, "the CA has no certificate in PEM form")
		}
	}
	if len(p.Cert)+len(p.Key) > 0 {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "read the certificate of the client: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Upstream returns the gRPC target of the server at a URI, and the credentials of connections to it.
func Upstream(uri string, given PEM) (target string, with credentials.TransportCredentials, err error) {
	target, encrypted, err := targetOf(uri)
	if err != nil || !encrypted {
		return target, insecure.NewCredentials(), err
	}
	config, err := given.config()
	if err != nil {
		return "", nil, err
	}
	return target, credentials.NewTLS(config), nil
}

// probeTimeout is the time limit for checking whether a server uses TLS.
const probeTimeout = 2 * time.Second

// explainTLS checks whether TLS is the reason for the failure of a connection. If so, it changes
// the failure's message and remedy, and returns true. If server and client do not agree on whether
// to use TLS, the error of the failed connection often says only that the connection was closed.
// Therefore explainTLS opens another connection, on which it sends no data.
func (c *Client) explainTLS(ctx context.Context, e *fault.Error) bool {
	switch {
	case c.target == "" || strings.HasPrefix(c.target, "unix:") || strings.Contains(e.Message, "connection refused"):
		return false
	case c.tls != nil:
		return c.explainHandshake(e, e.Message) || c.explainHandshake(e, probe(ctx, c.target, c.tls))
	}
	answer := probe(ctx, c.target, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // no data is sent, so the server's identity does not matter
	if answer != "" && !strings.Contains(answer, "remote error: tls:") {
		return false
	}
	e.Message = "the server speaks TLS"
	_ = e.WithRemedy("write grpc+tls://%s, and name the CA of its certificate with --tls-ca", c.target)
	return true
}

// explainHandshake checks whether the text of an error is about a failed TLS handshake. If so, it
// changes the message and remedy of e, and returns true.
func (c *Client) explainHandshake(e *fault.Error, text string) bool {
	text = trimStatus(text)
	switch {
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		e.Message = "the server does not speak TLS"
		_ = e.WithRemedy("write grpc://%s, or start the server with --tls-cert and --tls-key", c.target)
	case strings.Contains(text, "remote error: tls: expired certificate"):
		e.Message = "the certificate of this client has expired: " + text
		_ = e.WithRemedy("renew the certificate of --tls-cert")
	case strings.Contains(text, "certificate has expired or is not yet valid"):
		e.Message = "the server's certificate is not valid now: " + text
		_ = e.WithRemedy("ask the operator of the server to renew it, which needs no restart; or correct the clock of this machine")
	case strings.Contains(text, "x509:"):
		e.Message = "the server's certificate is not trusted: " + text
		_ = e.WithRemedy("name the CA of its certificate with --tls-ca, and connect to a name that is in the certificate")
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"), strings.Contains(text, "unknown certificate authority"):
		e.Message = "the server requires a certificate of a CA that it trusts: " + text
		_ = e.WithRemedy("give one with --tls-cert and --tls-key")
	default:
		return false
	}
	return true
}

// probe opens a TLS connection to an address and waits for the server's first bytes. It returns the
// text of the error, or "" if there is no error.
func probe(ctx context.Context, address string, config *tls.Config) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err.Error()
	}
	defer conn.Close() //nolint:errcheck // no data was sent
	until, _ := ctx.Deadline()
	if err = conn.SetReadDeadline(until); err == nil {
		_, err = conn.Read(make([]byte, 1)) // in TLS 1.3, the server checks the client's certificate only after the client's part of the handshake has ended
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
