package restcat

import (
	"net/url"
	"slices"
	"strings"
)

// leastSecret is how long a secret is at the least: shorter ones are words that any text
// may have.
const leastSecret = 4

// secrets are the properties that nobody is shown.
func secrets(properties map[string]string) []string {
	var out []string
	for name, value := range properties {
		switch name {
		case propertyToken, propertySecretKey, propertySession:
			out = append(out, value)
		case propertyCredential:
			_, secret, two := strings.Cut(value, ":")
			if !two {
				secret = value
			}
			out = append(out, secret)
		default:
			if strings.HasPrefix(name, headerPrefix) {
				out = append(out, value)
			}
		}
	}
	return out
}

// without is a text of the server's in which secrets are hidden: some servers repeat what
// they refuse.
func (c *Catalog) without(text, token string) string {
	for _, secret := range append(slices.Clone(c.secrets), token) {
		if len(secret) < leastSecret {
			continue
		}
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, form, "xxxxx")
		}
	}
	return text
}
