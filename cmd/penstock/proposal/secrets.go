package proposal

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Secret is a value that a config file refers to by a variable of the environment.
type Secret struct {
	Variable string
	Property string // what the value is, in words
	Value    string
}

// WithoutSecrets replaces secret values by variables of the environment. Values that already
// name a variable stay.
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

// isSecret reports whether a property is a secret, by its name.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return regexp.MustCompile(`(^|[.\-_])(token|credential|password|secret|authorization|key|passphrase)s?($|[.\-_])`).MatchString(name) ||
		strings.HasPrefix(name, "header.")
}

// hidePassword hides the password of a URI, or all of the URI if it has other secrets.
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

// variableOf returns the name of the variable for a secret of a property.
func variableOf(property, what string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(property, "_")
	if what != "" {
		name += "_" + what
	}
	return "CATALOG_" + strings.ToUpper(strings.Trim(name, "_"))
}
