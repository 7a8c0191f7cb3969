package client

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/hostport"
)

// DefaultPort is the port that servers listen on by default. If a URI has no port, the error
// proposes this port.
const DefaultPort = "8815"

// example is the remedy for a URI that does not identify a server.
const example = "write grpc://127.0.0.1:" + DefaultPort + " for a server on this machine, or what penstock serve prints first"

// targetOf returns the gRPC target of a URI, and whether the connection is encrypted.
func targetOf(uri string) (of string, encrypted bool, err error) {
	if err := checkURI(uri); err != nil {
		return "", false, err
	}
	scheme, address := splitURI(uri)
	unix := scheme == "grpc+unix"
	_, port, err := net.SplitHostPort(address)
	switch {
	case unix && filepath.IsAbs(address):
		return (&url.URL{Scheme: "unix", Path: address}).String(), false, nil
	case !unix && strings.Contains(address, "@"):
		return "", false, fault.InvalidField("uri", "%q names a user, which is never sent", fault.RedactURI(uri)).
			WithRemedy("use grpc://host:port")
	case unix || err != nil:
		e := fault.InvalidField("uri", "%q is not of the form grpc://host:port, grpc+tls://host:port or grpc+unix:///path", fault.RedactURI(uri))
		if err == nil && isPort(port) {
			return "", false, e.WithRemedy("write grpc://%s", address)
		}
		return "", false, e.WithRemedy(example)
	case !isPort(port):
		return "", false, fault.InvalidField("uri", "the port of %q is not a number from 1 to 65535", fault.RedactURI(uri)).WithRemedy(example)
	}
	return address, scheme == "grpc+tls", nil
}

// HostOf returns the host of a URI if it is a name that can have several addresses; "" for an IP address, a name of this machine, a socket, or a URI
// that is not valid.
func HostOf(uri string) string {
	target, _, err := targetOf(uri)
	if err != nil || staysHere(target) {
		return ""
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil || net.ParseIP(host) != nil {
		return ""
	}
	return host
}

// splitURI returns the scheme of a URI, and the rest of the URI. If the URI has no scheme, the
// scheme is grpc.
func splitURI(uri string) (scheme, address string) {
	scheme, address, found := strings.Cut(uri, "://")
	if !found {
		return "grpc", uri
	}
	return scheme, address
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// schemes returns the valid schemes of a server's URI.
func schemes() []string { return []string{"grpc", "grpc+tcp", "grpc+tls", "grpc+unix"} }

// checkURI returns an error for a URI with an unknown scheme, or without a host or a port. For a
// URI without a port, it does not use the default port, because another server may listen on that
// port. The function targetOf checks URIs for other faults.
func checkURI(uri string) error {
	scheme, address := splitURI(uri)
	switch path, socket := strings.CutPrefix(uri, "unix://"); {
	case scheme == "grpc+unix" || strings.Contains(address, "@"):
		return nil
	case socket:
		return fault.InvalidField("uri", "%q has the scheme of a socket, without grpc+", uri).WithRemedy("write grpc+unix://%s", path)
	}
	if address == "" || strings.HasPrefix(address, ":") && !strings.HasPrefix(address, "::") {
		return fault.InvalidField("uri", "%q names no host", fault.RedactURI(uri)).WithRemedy(example)
	}
	_, _, err := hostport.Split(strings.TrimSuffix(address, "/"), DefaultPort)
	wrong, _ := errors.AsType[*hostport.Problem](err)
	if !slices.Contains(schemes(), scheme) {
		e := fault.InvalidField("uri", "%q has the scheme %s, and not one of %s", fault.RedactURI(uri), scheme, strings.Join(schemes(), ", "))
		switch {
		case err == nil:
			return e.WithRemedy("write grpc://%s", address)
		case wrong.Write != "":
			return e.WithRemedy("write grpc://%s, if the server listens on its default port", wrong.Write)
		}
		return e.WithRemedy(example)
	}
	if err == nil || wrong.Write == "" {
		return nil
	}
	return fault.InvalidField("uri", "%q has the scheme %s, and its address %s", fault.RedactURI(uri), scheme, wrong.Found).
		WithRemedy("write %s://%s, if the server listens on its default port; penstock serve prints its address first", scheme, wrong.Write)
}
