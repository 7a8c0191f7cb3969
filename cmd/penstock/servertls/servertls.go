// Package servertls holds the certificate of a server, which can be replaced while the server runs.
//
// A handshake uses the certificate that was loaded last. Open connections are not affected. Load
// refuses certificates that clients would refuse, namely certificates that are not valid at this
// time, and certificates without names.
package servertls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cmd/penstock/keyfile"
	"github.com/penstock/penstock/internal/fault"
)

// Names of the settings, for errors.
const (
	settingCert     = "tls_cert"
	settingKey      = "tls_key"
	settingClientCA = "tls_client_ca"
)

// PairFiles holds the paths of the PEM files of a certificate and its key.
type PairFiles struct {
	Cert     string // the server's certificate, followed by intermediate certificates
	Key      string
	ClientCA string // the CAs of client certificates; "": clients need no certificate
}

// Certificates holds the certificate, the key and the client CAs of a server. It is safe for
// concurrent use.
type Certificates struct {
	files   PairFiles
	clock   func() time.Time
	current atomic.Pointer[tls.Config]
}

// New returns Certificates for the given files. Load reads the files.
func New(files PairFiles, clock func() time.Time) *Certificates {
	return &Certificates{files: files, clock: clock}
}

// Paths returns the paths of the files.
func (c *Certificates) Paths() []string {
	paths := []string{c.files.Cert, c.files.Key}
	if c.files.ClientCA != "" {
		paths = append(paths, c.files.ClientCA)
	}
	return paths
}

// Load reads the files. If it fails, the previous certificates stay in use.
func (c *Certificates) Load() error {
	cert, err := keyfile.Read(settingCert, c.files.Cert, keyfile.Public)
	if err != nil {
		return err
	}
	if bytes.Contains(cert, []byte("PRIVATE KEY-----")) && !bytes.Contains(cert, []byte("BEGIN CERTIFICATE-----")) {
		return fault.InvalidField(settingCert, "%s has a private key, and no certificate", c.files.Cert).In("", c.files.Cert).
			WithRemedy("set %s to the certificate and %s to its key; they may be swapped", settingCert, settingKey)
	}
	key, err := keyfile.Read(settingKey, c.files.Key, keyfile.Secret)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fault.InvalidField(settingCert, "%s and %s are not a certificate and its key: %v", c.files.Cert, c.files.Key, err).
			WithRemedy("write both in PEM form, the key of the first certificate in the file")
	}
	if err := c.check(pair.Leaf); err != nil {
		return err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS13,
		// Sessions are not resumed, because the server would not check the client's certificate of
		// a resumed session against CAs that were loaded later.
		SessionTicketsDisabled: true,
		// With dynamic sizing, the first records that are sent after a pause would each have only
		// the size of a packet.
		DynamicRecordSizingDisabled: true,
	}
	if c.files.ClientCA != "" {
		text, err := keyfile.Read(settingClientCA, c.files.ClientCA, keyfile.Public)
		if err != nil {
			return err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return fault.InvalidField(settingClientCA, "%s has no certificate", c.files.ClientCA).WithRemedy("write the CA's certificate in PEM form")
		}
	}
	c.current.Store(config)
	return nil
}

// check returns an error for a certificate that clients would refuse.
func (c *Certificates) check(leaf *x509.Certificate) error {
	switch now := c.clock(); {
	case now.After(leaf.NotAfter):
		return fault.InvalidField(settingCert, "the certificate in %s expired at %s", c.files.Cert, leaf.NotAfter.Format(time.RFC3339)).
			WithRemedy("renew it")
	case now.Before(leaf.NotBefore):
		return fault.InvalidField(settingCert, "the certificate in %s is not valid before %s", c.files.Cert, leaf.NotBefore.Format(time.RFC3339)).
			WithRemedy("check the clock of this machine")
	case len(leaf.DNSNames) == 0 && len(leaf.IPAddresses) == 0:
		return fault.InvalidField(settingCert, "the certificate in %s names no host as a subject alternative name, and clients check those alone", c.files.Cert).
			WithRemedy("make one with the names and addresses by which clients reach the server")
	}
	return nil
}

// Expires returns when the certificate that was loaded last expires.
func (c *Certificates) Expires() time.Time { return c.current.Load().Certificates[0].Leaf.NotAfter }

// Config returns a TLS configuration whose handshakes use the certificate loaded last. protocols
// are ALPN names.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config := c.current.Load().Clone()
			config.NextProtos = protocols
			return config, nil
		},
	}
}
