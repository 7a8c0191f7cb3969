// Package certtest makes certificates for tests: a CA, a server's certificate and a client's.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the files.
const (
	CA         = "ca.pem"
	CAKey      = "ca.key"
	ServerCert = "server.pem"
	ServerKey  = "server.key"
	ClientCert = "client.pem"
	ClientKey  = "client.key"
)

// Modes of the files, and of a folder that is created.
const (
	fileMode   = 0o600
	folderMode = 0o700
)

// skew is how far the clocks of machines may differ.
const skew = time.Hour

// Make writes a new certificate for a server with these names and addresses, and one for a client, into a folder. The CA in
// the folder signs them; one that is missing is made first, with ten times the lifetime. Files are replaced by renaming.
func Make(folder string, hosts []string, now time.Time, lifetime time.Duration) error {
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return err
	}
	ca, err := authorityIn(folder, now, 10*lifetime)
	if err != nil {
		return err
	}
	server := template("penstock server", now, lifetime)
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	client := template("penstock client", now, lifetime)
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return errors.Join(ca.issue(folder, ServerCert, ServerKey, server), ca.issue(folder, ClientCert, ClientKey, client))
}

// authority is a CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.PrivateKey
}

// authorityIn reads the CA of a folder, or makes one.
func authorityIn(folder string, now time.Time, lifetime time.Duration) (authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, CA), filepath.Join(folder, CAKey))
	if errors.Is(err, fs.ErrNotExist) {
		of := template("penstock test CA", now, lifetime)
		of.IsCA, of.BasicConstraintsValid = true, true
		of.KeyUsage = x509.KeyUsageCertSign
		if err := (authority{}).issue(folder, CA, CAKey, of); err != nil {
			return authority{}, err
		}
		pair, err = tls.LoadX509KeyPair(filepath.Join(folder, CA), filepath.Join(folder, CAKey))
	}
	return authority{pair.Leaf, pair.PrivateKey}, err
}

// template returns what all certificates have.
func template(name string, now time.Time, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// issue makes a key, signs its certificate, with the key itself if there is no CA, and writes both.
func (a authority) issue(folder, certFile, keyFile string, of *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = of, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, by)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The key first: a server that reads the pair in between keeps the one before.
	return errors.Join(
		replace(filepath.Join(folder, keyFile), &pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		replace(filepath.Join(folder, certFile), &pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

// replace writes a file and gives it its name once it is complete.
func replace(path string, block *pem.Block) error {
	if err := os.WriteFile(path+".part", pem.EncodeToMemory(block), fileMode); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
