package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/rawclient"
	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/tokens"
)

// access is a client's token and the certificates that it trusts. The zero value is for a server
// without TLS and tokens.
type access struct {
	roots *x509.CertPool // nil: no TLS
	token string
}

// transport returns the credentials of connections.
func (a access) transport() credentials.TransportCredentials {
	if a.roots == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(&tls.Config{RootCAs: a.roots, ServerName: "localhost", MinVersion: tls.VersionTLS13})
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (a access) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + a.token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (access) RequireTransportSecurity() bool { return false }

// withTokens returns the settings of a server with tokens and an audit log.
func withTokens(folder string) (launch, error) {
	token, line, err := tokens.New(rand.Reader, "trainers", time.Time{})
	if err != nil {
		return launch{}, err
	}
	file := filepath.Join(folder, "server.tokens")
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		return launch{}, err
	}
	return launch{env: []string{"PENSTOCK_TOKENS=" + file, "PENSTOCK_AUDIT_LOG=" + filepath.Join(folder, "audit.log")}, as: access{token: token}}, nil
}

// withTLS returns the settings of a server with TLS and tokens.
func withTLS(folder string) (launch, error) {
	l, err := withTokens(folder)
	if err != nil {
		return launch{}, err
	}
	of := filepath.Join(folder, "certificates")
	if err := os.MkdirAll(of, 0o700); err != nil {
		return launch{}, err
	}
	if err := certtest.Make(of, []string{"localhost"}, time.Now(), 24*time.Hour); err != nil {
		return launch{}, err
	}
	ca, err := os.ReadFile(filepath.Join(of, certtest.CA))
	if err != nil {
		return launch{}, err
	}
	l.as.roots = x509.NewCertPool()
	if !l.as.roots.AppendCertsFromPEM(ca) {
		return launch{}, errors.New("the CA is no certificate")
	}
	l.env = append(l.env, "PENSTOCK_TLS_CERT="+filepath.Join(of, certtest.ServerCert), "PENSTOCK_TLS_KEY="+filepath.Join(of, certtest.ServerKey))
	return l, nil
}

// tokens: calls with guessed tokens, each with a different one.
func (r *run) intrudeTokens(ctx context.Context) error {
	message, err := proto.Marshal(described(`{"dataset":"t"}`))
	if err != nil {
		return err
	}
	return r.intrude(ctx, intrusion{connections: 20, guard: withTokens, harm: func(ctx context.Context, c *rawclient.Conn) error {
		return repeat(ctx, 20*time.Millisecond, func() error {
			guess := make([]byte, 32)
			if _, err := rand.Read(guess); err != nil {
				return err
			}
			stream, err := c.Open("GetFlightInfo", rawclient.Header{Name: "authorization", Value: "Bearer " + tokens.Prefix + base64.RawURLEncoding.EncodeToString(guess)})
			if err != nil {
				return err
			}
			if err := c.Request(stream, message); err != nil {
				return err
			}
			_, err = c.AwaitEnd()
			return err
		})
	}})
}

// handshakes: TLS handshakes that stop after their first bytes, that complete and close, and that
// complete and send nothing.
func (r *run) intrudeHandshakes(ctx context.Context) error {
	const kinds = 3
	var count atomic.Int64
	return r.intrude(ctx, intrusion{connections: 800, guard: withTLS, raw: func(ctx context.Context, conn net.Conn) error {
		kind := count.Add(1) % kinds
		if kind == 0 {
			// The header of a record of 16 KiB; only a part of the record follows.
			if _, err := conn.Write(append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 1000)...)); err != nil {
				return err
			}
			_, err := conn.Read(make([]byte, 1)) // until the server ends it
			return err
		}
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}) //nolint:gosec // an intruder trusts anyone
		if err := secure.HandshakeContext(ctx); err != nil || kind == 1 {
			return err
		}
		_, err := secure.Read(make([]byte, 1))
		for err == nil {
			_, err = secure.Read(make([]byte, 1<<10))
		}
		return err
	}})
}
