package s3

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Serves reports whether a location is on S3.
func Serves(location string) bool {
	return slices.Contains(schemes(), store.Scheme(location))
}

// split returns the bucket and the key that a location names. Percent signs, question
// marks, spaces and double slashes are part of the key and not decoded, because writers of
// tables do not encode them.
func split(location string) (bucket, key string, err error) {
	bucket, key, err = splitFolder(location)
	if err == nil && key == "" {
		return "", "", fault.New(fault.Invalid, "location %q names no key", location).In("", location).WithRemedy("write it as s3://bucket/key")
	}
	return bucket, key, err
}

// splitFolder is split for folders. A whole bucket counts as a folder, too.
func splitFolder(location string) (bucket, key string, err error) {
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
	case strings.ContainsAny(bucket, "@:?#% \\") || strings.ContainsRune(location, 0):
		return "", "", refuse("location %q names a bucket that cannot be", location)
	}
	return bucket, key, nil
}
