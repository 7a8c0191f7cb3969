package store

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Prefixes is an immutable set of folders, on any kind of storage, that may contain files. The zero
// value is empty.
type Prefixes struct {
	kinds   Kinds
	folders []string // in the form of the method folder, which ends with a slash
}

// Prefixes returns the set of the folders at some locations. A location that is not a folder is
// Invalid.
func (k Kinds) Prefixes(locations ...string) (Prefixes, error) {
	out := Prefixes{kinds: k}
	for _, location := range locations {
		folder, ok := k.folder(location)
		if !ok {
			return Prefixes{}, fault.New(fault.Invalid, "%q is not a folder that files can be read from", fault.RedactURI(location)).
				WithRemedy("write it as file:///path or s3://bucket/path")
		}
		if !slices.Contains(out.folders, folder) {
			out.folders = append(out.folders, folder)
		}
	}
	return out, nil
}

// Contain reports whether a file is below one of the folders. It compares locations in the same way
// as stores: schemes of one kind are equivalent, characters are literal, and a name does not match
// longer names that begin with it. A location with "..", in any encoding, is in no folder.
func (p Prefixes) Contain(location string) bool {
	file, ok := p.kinds.comparable(location)
	return ok && slices.ContainsFunc(p.folders, func(folder string) bool { return strings.HasPrefix(file, folder) })
}

// With returns the union of p and more.
func (p Prefixes) With(more Prefixes) Prefixes {
	out := Prefixes{kinds: more.kinds, folders: slices.Clone(p.folders)}
	for _, folder := range more.folders {
		if !slices.Contains(out.folders, folder) {
			out.folders = append(out.folders, folder)
		}
	}
	return out
}

// List returns the folders.
func (p Prefixes) List() []string { return slices.Clone(p.folders) }

// Serves reports whether files of a location's scheme can be opened.
func (k Kinds) Serves(location string) bool {
	scheme := Scheme(location)
	return scheme == "" || scheme == "file" || k[scheme] != nil
}

// folder returns a folder in the form in which locations are compared.
func (k Kinds) folder(location string) (string, bool) {
	folder, ok := k.comparable(location)
	folder = strings.TrimRight(folder, "/") + "/"
	if strings.HasSuffix(folder, ":/") { // the prefix of all locations with that scheme
		folder += "/"
	}
	return folder, ok
}

// comparable returns a location in the form in which locations are compared. It returns false if
// the location leaves its folder or is not valid.
func (k Kinds) comparable(location string) (string, bool) {
	// Most locations contain neither, and a table may have a million locations.
	if (strings.Contains(location, "..") || strings.Contains(location, "%")) && slices.ContainsFunc(strings.Split(location, "/"), climbs) {
		return "", false
	}
	switch scheme := Scheme(location); {
	case scheme == "" || scheme == "file":
		local, err := Path(location)
		return "file://" + path.Clean(local), err == nil
	case k[scheme] != nil:
		canonical := k.Canonical(location)
		return canonical, strings.HasPrefix(canonical[len(k[scheme].Schemes[0]):], "://")
	default:
		return "", false
	}
}

// climbs reports whether a part of a location is "..", or becomes ".." if a server decodes it.
func climbs(part string) bool {
	for range 2 {
		if part == ".." {
			return true
		}
		decoded, err := url.PathUnescape(part)
		if err != nil || decoded == part {
			return false
		}
		part = decoded
	}
	return part == ".."
}
