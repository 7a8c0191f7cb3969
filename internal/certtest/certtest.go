// Package certtest makes certificates for tests and development: a CA, a server's certificate and a client's.
//
// The CA's key lies in the same folder, so that a program that reads the folder can make certificates that its users trust.
// Outside of tests, certificates come from a CA of the organization.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/fault"
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

// Modes of keys, of certificates, and of a folder that is created.
const (
	keyMode    = 0o600
	certMode   = 0o644
	folderMode = 0o755
)

// skew is how far the clocks of machines may differ.
const skew = time.Hour

// Make writes a new certificate for a server with these names and addresses, and one for a client, into a folder. The CA in
// the folder signs them; one that is missing is made first, with ten times the lifetime. Files are replaced by renaming.
func Make(folder string, hosts []string, now time.Time, lifetime time.Duration) error {
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return fault.New(fault.Unavailable, "create the folder: %w", err)
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
	key  *ecdsa.PrivateKey
}

// authorityIn reads the CA of a folder, or makes one.
func authorityIn(folder string, now time.Time, lifetime time.Duration) (authority, error) {
	cert, err := os.ReadFile(filepath.Join(folder, CA))
	if errors.Is(err, fs.ErrNotExist) {
		of := template("penstock development CA", now, lifetime)
		of.IsCA, of.BasicConstraintsValid = true, true
		of.KeyUsage = x509.KeyUsageCertSign
		if err := (authority{}).issue(folder, CA, CAKey, of); err != nil {
			return authority{}, err
		}
		cert, err = os.ReadFile(filepath.Join(folder, CA))
	}
	if err != nil {
		return authority{}, fault.New(fault.Unavailable, "read the CA: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(folder, CAKey))
	if err != nil {
		return authority{}, fault.New(fault.Invalid, "read the key of the CA in %s: %w", folder, err).
			WithRemedy("name an empty folder, or delete %s, which makes a new CA", CA)
	}
	certBlock, _ := pem.Decode(cert)
	keyBlock, _ := pem.Decode(key)
	if certBlock == nil || keyBlock == nil {
		return authority{}, fault.New(fault.Invalid, "the CA in %s is not in PEM form", folder).WithRemedy("name an empty folder")
	}
	var ca authority
	var certErr, keyErr error
	ca.cert, certErr = x509.ParseCertificate(certBlock.Bytes)
	ca.key, keyErr = x509.ParseECPrivateKey(keyBlock.Bytes)
	if err := errors.Join(certErr, keyErr); err != nil {
		return authority{}, fault.New(fault.Invalid, "the CA in %s cannot be read: %w", folder, err).WithRemedy("name an empty folder")
	}
	return ca, nil
}

// template returns what all certificates have.
func template(name string, now time.Time, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// serialBits is the size of a random serial number, as CAs use.
const serialBits = 127

// issue makes a key, signs its certificate, with the key itself if there is no CA, and writes both.
func (a authority) issue(folder, certFile, keyFile string, of *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.New(fault.Internal, "make a key: %w", err)
	}
	if of.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits)); err != nil {
		return fault.New(fault.Internal, "make a serial number: %w", err)
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = of, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, by)
	if err != nil {
		return fault.New(fault.Internal, "sign a certificate: %w", err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fault.New(fault.Internal, "write a key: %w", err)
	}
	// The key first: a server that reads the pair in between keeps the one before.
	return errors.Join(
		replace(filepath.Join(folder, keyFile), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), keyMode),
		replace(filepath.Join(folder, certFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), certMode))
}

// replace writes a file and gives it its name once it is complete.
func replace(path string, text []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".penstock-*")
	if err != nil {
		return fault.New(fault.Unavailable, "write %s: %w", path, err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fault.New(fault.Unavailable, "write %s: %w", path, err), os.Remove(file.Name()))
	}
	return nil
}
