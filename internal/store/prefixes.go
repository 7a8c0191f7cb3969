package store

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Prefixes are folders, on any kind of storage, that files may lie in. The zero value has none. They do not change.
type Prefixes struct {
	kinds   Kinds
	folders []string // canonical, each with a slash at its end
}

// Prefixes returns the folders with some locations. A location that names none is Invalid.
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

// Contain reports whether a file lies below one of the folders. Locations are compared as stores take them: schemes of one kind
// are alike, the characters of names are literal, and a name that is part of a longer one is another folder. A location with ".."
// lies in none, however it is encoded.
func (p Prefixes) Contain(location string) bool {
	file, ok := p.kinds.comparable(location)
	return ok && slices.ContainsFunc(p.folders, func(folder string) bool { return strings.HasPrefix(file, folder) })
}

// With returns the folders of both.
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
	if strings.HasSuffix(folder, ":/") { // all of a kind
		folder += "/"
	}
	return folder, ok
}

// comparable returns a location in the form in which locations are compared; false for one that leaves its folder or is none.
func (k Kinds) comparable(location string) (string, bool) {
	// Most locations have neither, and a table may have a million of them.
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

// climbs reports whether a part of a location is "..", or becomes it where servers decode it.
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
