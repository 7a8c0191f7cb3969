package servertls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/fault"
)

// made creates certificates in a folder, and returns the loaded Certificates of the server.
func made(t *testing.T, folder string, mutual bool) *Certificates {
	t.Helper()
	require.NoError(t, certtest.Make(folder, []string{"localhost", "127.0.0.1"}, time.Now(), time.Hour))
	files := PairFiles{Cert: filepath.Join(folder, certtest.ServerCert), Key: filepath.Join(folder, certtest.ServerKey)}
	if mutual {
		files.ClientCA = filepath.Join(folder, certtest.CA)
	}
	c := New(files, time.Now)
	require.NoError(t, c.Load())
	return c
}

// handshake connects a client, and returns the server's certificate or the error of either side.
func handshake(t *testing.T, c *Certificates, client *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()  //nolint:errcheck // a pipe
	defer there.Close() //nolint:errcheck // a pipe
	served := make(chan error, 1)
	go func() {
		server := tls.Server(there, c.Config("h2"))
		err := server.Handshake()
		_ = there.Close()
		served <- err
	}()
	conn := tls.Client(here, client)
	err := conn.Handshake()
	_ = here.Close()
	if of := <-served; err == nil {
		err = of
	}
	if err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// trusting returns the TLS configuration of a client that trusts the CA in a folder.
func trusting(t *testing.T, folder string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, certtest.CA))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	return &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
}

// spec: access-1
func TestHandshakesUseTheCertificateThatWasLoadedLast(t *testing.T) {
	folder := t.TempDir()
	c := made(t, folder, false)
	client := trusting(t, folder)
	first, err := handshake(t, c, client)
	require.NoError(t, err)
	require.NoError(t, certtest.Make(folder, []string{"localhost"}, time.Now(), time.Hour))
	again, err := handshake(t, c, client)
	require.NoError(t, err)
	require.Equal(t, first.SerialNumber, again.SerialNumber)
	require.NoError(t, c.Load())
	second, err := handshake(t, c, client)
	require.NoError(t, err)
	require.NotEqual(t, first.SerialNumber, second.SerialNumber)
}

// spec: access-1
func TestTLSBefore13IsRefused(t *testing.T) {
	folder := t.TempDir()
	c := made(t, folder, false)
	client := trusting(t, folder)
	client.MaxVersion = tls.VersionTLS12
	_, err := handshake(t, c, client)
	require.Error(t, err)
}

// spec: access-2
func TestClientsWithoutACertificateOfTheCAAreRefused(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	c := made(t, folder, true)
	made(t, other, false)
	client := trusting(t, folder)
	_, err := handshake(t, c, client)
	require.Error(t, err)
	for from, allowed := range map[string]bool{folder: true, other: false} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(from, certtest.ClientCert), filepath.Join(from, certtest.ClientKey))
		require.NoError(t, err)
		client.Certificates = []tls.Certificate{pair}
		_, err = handshake(t, c, client)
		require.Equal(t, allowed, err == nil, err)
	}
}

func TestPairsThatClientsWouldRefuseAreRefused(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	c := made(t, folder, true)
	before := c.current.Load()
	made(t, other, false)
	at := func(folder, name string) string { return filepath.Join(folder, name) }
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return text
	}
	good := read(at(folder, certtest.ServerKey))
	for name, broken := range map[string]func(){
		"of two pairs": func() {
			require.NoError(t, os.WriteFile(at(folder, certtest.ServerKey), read(at(other, certtest.ServerKey)), 0o600))
		},
		"empty":    func() { require.NoError(t, os.WriteFile(at(folder, certtest.ServerKey), nil, 0o600)) },
		"missing":  func() { require.NoError(t, os.Remove(at(folder, certtest.ServerKey))) },
		"readable": func() { require.NoError(t, os.Chmod(at(folder, certtest.ServerKey), 0o644)) },
		"no CA": func() {
			require.NoError(t, os.WriteFile(at(folder, certtest.CA), []byte("none"), 0o600))
		},
	} {
		ca := read(at(folder, certtest.CA))
		broken()
		require.Equal(t, fault.Invalid, fault.KindOf(c.Load()), name)
		require.Same(t, before, c.current.Load(), name)
		require.NoError(t, os.WriteFile(at(folder, certtest.ServerKey), good, 0o600))
		require.NoError(t, os.Chmod(at(folder, certtest.ServerKey), 0o600))
		require.NoError(t, os.WriteFile(at(folder, certtest.CA), ca, 0o600))
	}
	require.NoError(t, c.Load())
	for name, make := range map[string]func() error{
		"expired": func() error {
			return certtest.Make(folder, []string{"localhost"}, time.Now().Add(-3*time.Hour), time.Hour)
		},
		"future": func() error {
			return certtest.Make(folder, []string{"localhost"}, time.Now().Add(3*time.Hour), time.Hour)
		},
		"nameless": func() error { return certtest.Make(folder, nil, time.Now(), time.Hour) },
	} {
		require.NoError(t, make())
		require.Equal(t, fault.Invalid, fault.KindOf(c.Load()), name)
	}
}

// editedCertificates is the number of edited client certificates that are verified and must be
// refused.
const editedCertificates = 10000

// spec: access-2
func TestNoEditedClientCertificateIsAccepted(t *testing.T) {
	folder := t.TempDir()
	c := made(t, folder, true)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certtest.ClientCert), filepath.Join(folder, certtest.ClientKey))
	require.NoError(t, err)
	whole := pair.Certificate[0]
	roots := c.current.Load().ClientCAs
	accepted := func(der []byte) bool {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return false
		}
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err == nil
	}
	require.True(t, accepted(whole))
	random := rand.New(rand.NewPCG(1, 2))
	for range editedCertificates {
		edited := append([]byte{}, whole...)
		edited[random.IntN(len(edited))] ^= 1 << random.IntN(8)
		require.False(t, accepted(edited), "%x", edited)
	}
	// Handshakes must also refuse edited certificates.
	client := trusting(t, folder)
	for range 20 {
		edited := append([]byte{}, whole...)
		edited[random.IntN(len(edited))] ^= 1 << random.IntN(8)
		client.Certificates = []tls.Certificate{{Certificate: [][]byte{edited}, PrivateKey: pair.PrivateKey}}
		_, err := handshake(t, c, client)
		require.Error(t, err, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: edited})))
	}
}

func TestSwappedFilesAreNamed(t *testing.T) {
	folder := t.TempDir()
	made(t, folder, false)
	swapped := New(PairFiles{Cert: filepath.Join(folder, certtest.ServerKey), Key: filepath.Join(folder, certtest.ServerCert)}, time.Now)
	err := swapped.Load()
	require.ErrorContains(t, err, "has a private key, and no certificate")
	require.Equal(t, "set tls_cert to the certificate and tls_key to its key; they may be swapped", fault.As(err).Remedy)
}
