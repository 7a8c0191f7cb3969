// Package hostport splits addresses that people write as host:port. For an invalid address, it says
// what it has, what it lacks, and what to write instead.
//
// It looks no name up and opens no connection.
package hostport

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Problem describes a fault of an address. It never has a part of a text that may contain a
// password.
type Problem struct {
	Found string // continues a sentence that begins with the address, as "has the host a and no port"
	Write string // a correct address that may be meant; "" if there is none
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Write == "" {
		return p.Found
	}
	return p.Found + "; write " + p.Write
}

// Split returns the host and the port of an address. The port is a number from 0 to 65535,
// the host may be empty. Every error is a *Problem; port is the one that it proposes.
func Split(text, port string) (host, of string, err error) {
	host, of, err = net.SplitHostPort(text)
	switch {
	case strings.ContainsAny(text, "@/?# ") || text == "":
		return "", "", &Problem{Found: "is not of the form host:port"}
	case err != nil || of == "":
		return "", "", whole(text, port)
	case !isPort(of):
		return "", "", &Problem{Found: "has a port that is not a number from 0 to 65535"}
	}
	return host, of, nil
}

// whole returns the problem of an address without a port.
func whole(text, port string) *Problem {
	bare := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(text, "["), ":"), "]")
	last := strings.LastIndexByte(text, ':')
	switch {
	case isPort(text):
		return &Problem{Found: "has a port and no host", Write: "127.0.0.1:" + text}
	case last > 0 && isIPv6(text[:last]) && (text[last+1:] == port || !isIPv6(text)) && isPort(text[last+1:]):
		return &Problem{Found: "has an IPv6 address without brackets", Write: net.JoinHostPort(text[:last], text[last+1:])}
	case isIPv6(text):
		return &Problem{Found: "is an IPv6 address without brackets, and has no port", Write: net.JoinHostPort(text, port)}
	case bare == "":
		return &Problem{Found: "has neither a host nor a port"}
	case isIPv6(bare) || !strings.ContainsAny(bare, ":[]"):
		return &Problem{Found: fmt.Sprintf("has the host %s and no port", bare), Write: net.JoinHostPort(bare, port)}
	}
	return &Problem{Found: "is not of the form host:port"}
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func isIPv6(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Is6()
}

// IsLoopback reports whether a host is this machine by its name alone: localhost or a loopback address.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
