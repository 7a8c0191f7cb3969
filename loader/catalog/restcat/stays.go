package restcat

import (
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// stays applies the uri that the server's configuration gives the catalog; "" if it gives none. It
// refuses a uri of another server if the catalog's block has secrets, and a token endpoint of a
// server that the block does not name if the block has a credential: otherwise that server would
// receive the secrets of the block.
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

// hasSecrets reports whether the catalog's block has a token, a credential, headers or signatures,
// which requests would show to a server.
func (c *client) hasSecrets() bool {
	for name := range c.options.Properties {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	of := c.options.Properties
	return of[propertyToken] != "" || of[propertyCredential] != "" || isTrue(of[propertySigV4])
}

// namesServer reports whether the catalog's block names the server of this URL as its token server.
func (c *client) namesServer(at *url.URL) bool {
	for _, name := range []string{propertyOAuth, propertyOAuthOld} {
		if own, err := server(name, c.options.Properties[name]); err == nil && sameServer(own, at) {
			return true
		}
	}
	return false
}

// moved returns the error for an address of another server.
func moved(name, address string) error {
	return fault.InvalidField(name, "it names %s, another server than the catalog's block, which would get the block's token, credential or headers",
		fault.RedactURI(address)).WithRemedy("if that server is the right one, write it as %s of the block", name)
}

// sameServer reports whether two URLs have the same scheme, host and port.
func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// port returns the port of a URL: the one in the URL, or else the default port of its scheme.
func port(of *url.URL) string {
	if given := of.Port(); given != "" {
		return given
	}
	return map[string]string{"http": "80", "https": "443"}[of.Scheme]
}
