package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock/penstock/internal/fault"
)

// Security is what a client needs to trust a server and be trusted by it. Its fields are paths of PEM files; "" is none.
type Security struct {
	CA        string // of the server's certificate; "" is those of the system
	Cert, Key string // of this client
}

// transport returns how connections are secured.
func (s Security) transport(encrypted bool) (credentials.TransportCredentials, error) {
	if !encrypted {
		if s.CA+s.Cert+s.Key != "" {
			return nil, fault.InvalidField("uri", "connects without TLS, and certificates are given").WithRemedy("write grpc+tls://host:port")
		}
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fault.New(fault.Invalid, "read the CA of --tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fault.InvalidField("--tls-ca", "%s has no certificate in PEM form", s.CA)
		}
	}
	if s.Cert != "" || s.Key != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "read the certificate of --tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// probeTimeout bounds the check whether a server speaks TLS.
const probeTimeout = 2 * time.Second

// explainTLS changes the failure of a connection that TLS explains, and reports whether it did. A server and a client that
// disagree on TLS only see a connection that breaks.
func (c *Client) explainTLS(ctx context.Context, e *fault.Error) bool {
	address := c.target
	switch {
	case address == "" || strings.HasPrefix(address, "unix:"):
		return false
	case !c.encrypted:
		if strings.Contains(e.Message, "connection refused") || !speaksTLS(ctx, address) {
			return false
		}
		e.Message = "the server speaks TLS"
		_ = e.WithRemedy("write grpc+tls://%s, and name the CA of its certificate with --tls-ca", address)
	case strings.Contains(e.Message, "first record does not look like a TLS handshake"):
		e.Message = "the server does not speak TLS"
		_ = e.WithRemedy("write grpc://%s, or start the server with --tls-cert and --tls-key", address)
	case strings.Contains(e.Message, "x509:"):
		e.Message = "the server's certificate is not trusted: " + trimStatus(e.Message)
		_ = e.WithRemedy("name the CA of its certificate with --tls-ca, and connect to a name that is in the certificate")
	case strings.Contains(e.Message, "certificate required"), strings.Contains(e.Message, "bad certificate"), strings.Contains(e.Message, "unknown certificate authority"):
		e.Message = "the server requires a certificate of a CA that it trusts: " + trimStatus(e.Message)
		_ = e.WithRemedy("give one with --tls-cert and --tls-key")
	default:
		return false
	}
	return true
}

// speaksTLS reports whether the server at an address answers a TLS handshake.
func speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}} //nolint:gosec // nothing is sent
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close() // nothing was sent
		return true
	}
	alert := tls.AlertError(0)
	return errors.As(err, &alert)
}
