package restcat

import (
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// stays takes over the address that a server's configuration gives the catalog; "" is none. Neither it nor the token endpoint in
// the merged properties may be of a server that the catalog's block does not name, if the block has something to prove who it is:
// that server would get it.
func (c *client) stays(uri string, merged map[string]string) error {
	if uri != "" {
		base, err := server(propertyURI, uri)
		if err != nil {
			return err
		}
		if c.hasSecrets() && !sameServer(base, c.base) {
			return moved(propertyURI, uri)
		}
		c.base = base
	}
	for _, name := range []string{propertyOAuth, propertyOAuthOld} {
		endpoint := merged[name]
		if endpoint == "" || endpoint == c.options.Properties[name] || c.options.Properties[propertyCredential] == "" {
			continue
		}
		at, err := server(name, endpoint)
		if err != nil {
			return err
		}
		if !sameServer(at, c.base) && !c.namesServer(at) {
			return moved(name, endpoint)
		}
	}
	return nil
}

// hasSecrets reports whether requests prove who the catalog's block is.
func (c *client) hasSecrets() bool {
	for name := range c.options.Properties {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	of := c.options.Properties
	return of[propertyToken] != "" || of[propertyCredential] != "" || isTrue(of[propertySigV4])
}

// namesServer reports whether the catalog's block names a server as one of tokens.
func (c *client) namesServer(at *url.URL) bool {
	for _, name := range []string{propertyOAuth, propertyOAuthOld} {
		if own, err := server(name, c.options.Properties[name]); err == nil && sameServer(own, at) {
			return true
		}
	}
	return false
}

// moved refuses an address.
func moved(name, address string) error {
	return fault.InvalidField(name, "it names %s, another server than the catalog's block, which would get the block's token, credential or headers",
		fault.RedactURI(address)).WithRemedy("if that server is the right one, write it as %s of the block", name)
}

// sameServer reports whether two URLs are of one server.
func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// port returns the port that a URL stands for.
func port(of *url.URL) string {
	if given := of.Port(); given != "" {
		return given
	}
	return map[string]string{"http": "80", "https": "443"}[of.Scheme]
}
