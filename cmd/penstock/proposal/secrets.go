package proposal

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Secret is a secret value. The config file contains the name of an environment variable in its
// place.
type Secret struct {
	Variable string
	Property string // a description of the value for the user
	Value    string
}

// WithoutSecrets replaces secret values by references to environment variables. Values that already
// refer to a variable stay unchanged.
func WithoutSecrets(given []dataset.Property) (written []dataset.Property, secrets []Secret) {
	for _, p := range given {
		hide := func(value string, what string) string {
			s := Secret{Variable: variableOf(p.Name, what), Property: p.Name, Value: value}
			if what != "" {
				s.Property = "the " + what + " of " + p.Name
			}
			secrets = append(secrets, s)
			return "${" + s.Variable + "}"
		}
		switch {
		case strings.Contains(p.Value, "${"):
		case isSecret(p.Name):
			p.Value = hide(p.Value, "")
		case fault.RedactURI(p.Value) != p.Value && strings.Contains(p.Value, "://"):
			p.Value = hidePassword(p.Value, hide)
		}
		written = append(written, p)
	}
	return written, secrets
}

// isSecret reports whether the name of a property indicates a secret.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return regexp.MustCompile(`(^|[.\-_])(token|credential|password|secret|authorization|key|passphrase)s?($|[.\-_])`).MatchString(name) ||
		strings.HasPrefix(name, "header.")
}

// hidePassword hides the password in a URI. If the URI contains other secrets, hidePassword hides
// the whole URI.
func hidePassword(uri string, hide func(value, what string) string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	who, where, ok := strings.Cut(rest, "@")
	user, password, both := strings.Cut(who, ":")
	if ok && both && password != "" && !strings.ContainsAny(who, "/?#") && fault.RedactURI(scheme+"://"+where) == scheme+"://"+where {
		if _, err := url.Parse(uri); err == nil {
			return scheme + "://" + user + ":" + hide(password, "password") + "@" + where
		}
	}
	return hide(uri, "")
}

// variableOf returns the name of the environment variable for a secret in a property.
func variableOf(property, what string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(property, "_")
	if what != "" {
		name += "_" + what
	}
	return "CATALOG_" + strings.ToUpper(strings.Trim(name, "_"))
}
