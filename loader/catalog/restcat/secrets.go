package restcat

import (
	"net/url"
	"slices"
	"strings"
)

// minSecret is the minimum length of a secret that redact hides. Shorter secrets may occur by
// chance in any text.
const minSecret = 4

// secrets returns the values of the properties that are secret.
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

// redact hides secrets in a text that the server sent, because some servers repeat a rejected
// request in their error message.
func (c *client) redact(text, token string) string {
	for _, secret := range append(slices.Clone(c.secrets), token) {
		if len(secret) < minSecret {
			continue
		}
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			text = strings.ReplaceAll(text, form, "xxxxx")
		}
	}
	return text
}
