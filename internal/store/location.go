package store

import (
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Path returns the local path that a location names. Percent signs and question marks are
// not decoded, because writers of Iceberg tables do not encode paths. A location with
// another scheme, with a host or without an absolute path is Invalid.
func Path(location string) (string, error) {
	path := location
	switch Scheme(location) {
	case "":
	case "file":
		path = location[len("file:"):]
		if rest, ok := strings.CutPrefix(path, "//"); ok {
			host, _, _ := strings.Cut(rest, "/")
			if host != "" && host != "localhost" {
				return "", refuse(location, "file %s is on host %q; only local files are served", location, host)
			}
			path = rest[len(host):]
		}
	default:
		return "", Kinds(nil).Refuse(location)
	}
	switch {
	case !strings.HasPrefix(path, "/"):
		return "", refuse(location, "location %q is not an absolute path", location).
			WithRemedy("write it as file:///path")
	case strings.ContainsRune(path, 0):
		return "", refuse(location, "location %q contains a zero byte", location)
	}
	return path, nil
}

// Scheme returns the scheme of a location in lower case, or "" if it has none.
func Scheme(location string) string {
	scheme, _, found := strings.Cut(location, ":")
	if !found || scheme == "" || strings.ContainsFunc(scheme, notInScheme) {
		return ""
	}
	return strings.ToLower(scheme)
}

// notInScheme reports whether a rune cannot be part of a scheme (RFC 3986, section 3.1).
func notInScheme(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '+', r == '-', r == '.':
		return false
	default:
		return true
	}
}

func refuse(location, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).In("", location)
}
