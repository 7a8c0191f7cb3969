package client

import (
	"errors"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/hostport"
)

// schemes are the schemes of a server's URI.
func schemes() []string { return []string{"grpc", "grpc+tcp", "grpc+tls", "grpc+unix"} }

// checkURI returns an error for a URI with another scheme, without a host, or without a port: on the default port of
// its host another server may listen. It leaves other faults to target.
func checkURI(uri string) error {
	scheme, address, found := strings.Cut(uri, "://")
	if !found {
		scheme, address = "grpc", uri
	}
	switch path, socket := strings.CutPrefix(uri, "unix://"); {
	case scheme == "grpc+unix" || strings.Contains(address, "@"):
		return nil
	case socket:
		return fault.InvalidField("uri", "%q has the scheme of a socket, without grpc+", uri).WithRemedy("write grpc+unix://%s", path)
	}
	if address == "" || strings.HasPrefix(address, ":") && !strings.HasPrefix(address, "::") {
		return fault.InvalidField("uri", "%q names no host", fault.RedactURI(uri)).
			WithRemedy("write grpc://127.0.0.1:%s for a server on this machine, or what penstock serve prints first", DefaultPort)
	}
	_, _, err := hostport.Split(strings.TrimSuffix(address, "/"), DefaultPort)
	wrong, _ := errors.AsType[*hostport.Problem](err)
	if !slices.Contains(schemes(), scheme) {
		e := fault.InvalidField("uri", "%q has the scheme %s, which is none of %s", fault.RedactURI(uri), scheme, strings.Join(schemes(), ", "))
		switch {
		case err == nil:
			return e.WithRemedy("write grpc://%s", address)
		case wrong.Write != "":
			return e.WithRemedy("write grpc://%s, if the server listens on its default port", wrong.Write)
		}
		return e.WithRemedy("write grpc://127.0.0.1:%s for a server on this machine, or what penstock serve prints first", DefaultPort)
	}
	if err == nil || wrong.Write == "" {
		return nil
	}
	return fault.InvalidField("uri", "%q has the scheme %s, and its address %s", fault.RedactURI(uri), scheme, wrong.Found).
		WithRemedy("write %s://%s, if the server listens on its default port; penstock serve prints its address first", scheme, wrong.Write)
}
