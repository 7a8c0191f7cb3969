package main

import (
	"context"
	"net"
	"slices"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/internal/fault"
)

// resolved returns the replicas behind the host of a URI; nil if the host is an address, or a name of this machine. Certificates are checked
// for the host.
func (p process) resolved(uri string, from sourceFlags) *ui.Resolved {
	host := client.HostOf(uri)
	if host == "" {
		return nil
	}
	return &ui.Resolved{
		Name:   uri,
		Lookup: func(ctx context.Context) ([]string, error) { return lookup(ctx, net.DefaultResolver, host) },
		Dial: func(address string) (ui.Dialed, error) {
			return client.DialAddress(uri, address, p.security(from), version())
		},
	}
}

// lookup returns the addresses of a host: those of IPv4 or, if there are none, of IPv6, since one server usually has one of each.
func lookup(ctx context.Context, by *net.Resolver, host string) ([]string, error) {
	found, err := by.LookupHost(ctx, host)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "look up %s: %w", host, err).WithRemedy("check the name in --uri, and the DNS of this machine")
	}
	return oneFamily(found), nil
}

// oneFamily returns the addresses of IPv4 or, if there are none, all.
func oneFamily(addresses []string) []string {
	four := slices.DeleteFunc(slices.Clone(addresses), func(address string) bool {
		ip := net.ParseIP(address)
		return ip == nil || ip.To4() == nil
	})
	if len(four) > 0 {
		return four
	}
	return addresses
}
