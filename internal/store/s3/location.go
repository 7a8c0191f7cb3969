package s3

import (
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Serves says whether a location is one of this package's.
func Serves(location string) bool {
	switch store.Scheme(location) {
	case "s3", "s3a", "s3n":
		return true
	default:
		return false
	}
}

// split returns the bucket and the key that a location names. The key stands for
// itself: percent signs, question marks, spaces and double slashes are part of it, as
// writers of tables mean them.
func split(location string) (bucket, key string, err error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).In("", location).WithRemedy("write it as s3://bucket/key")
	}
	if !Serves(location) {
		return "", "", refuse("scheme %q of %s is not one of S3", store.Scheme(location), location)
	}
	_, rest, _ := strings.Cut(location, ":")
	rest, slashes := strings.CutPrefix(rest, "//")
	bucket, key, _ = strings.Cut(rest, "/")
	switch {
	case !slashes || bucket == "":
		return "", "", refuse("location %q names no bucket", location)
	case key == "":
		return "", "", refuse("location %q names no key", location)
	case strings.ContainsAny(bucket, "@:?#% \\") || strings.ContainsRune(location, 0):
		return "", "", refuse("location %q names a bucket that cannot be", location)
	}
	return bucket, key, nil
}
