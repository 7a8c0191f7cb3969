package store

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/release"
)

// Kind describes one kind of remote storage to catalogs: the locations that it serves, how it is
// opened, and the catalog properties that it uses.
type Kind struct {
	Name    string   // the name in metrics
	Schemes []string // the schemes of the kind's locations, all equivalent, in lower case
	Example string   // completes "keep the files on …"
	// Open makes a store from a catalog's properties. If credentials is not nil, the store uses it
	// instead of credentials in the properties.
	Open func(ctx context.Context, properties map[string]string, credentials Credentials) (Store, error)
	// Check returns an error for properties that Open would refuse.
	Check func(properties map[string]string) error

	// Properties lists the properties that Open reads.
	Properties []string
	// Prefixes are the prefixes of the names of all properties of this kind, including properties
	// that Open does not read.
	Prefixes []string
	// Credential lists the properties that form one vended credential. Every credential has the
	// first of them.
	Credential []string
	// Expiry lists the properties that hold the expiry of a credential, in
	// milliseconds since the epoch. The first one that is set counts.
	Expiry []string
	// Identity lists the properties that choose an identity. A vended credential
	// replaces them all.
	Identity []string
}

// Credentials returns the credential to use now. A store calls it again when a
// credential has expired or was rejected. It is safe for concurrent use.
type Credentials func(ctx context.Context) (Credential, error)

// Credential is a credential that a catalog vended.
type Credential struct {
	Properties map[string]string // the properties that Kind.Credential lists
	Expires    time.Time         // when the credential expires; the zero time means never
}

// HasCredential reports whether properties contain a credential.
func (k *Kind) HasCredential(properties map[string]string) bool {
	return len(k.Credential) > 0 && properties[k.Credential[0]] != ""
}

// CredentialOf returns the credential in properties, without its expiry.
func (k *Kind) CredentialOf(properties map[string]string) Credential {
	out := Credential{Properties: map[string]string{}}
	for _, name := range k.Credential {
		if value, ok := properties[name]; ok {
			out.Properties[name] = value
		}
	}
	return out
}

// Environment has the settings and resources of a process that its stores use.
type Environment struct {
	// Reserve reserves memory before it is allocated, and may wait. Nil reserves
	// nothing.
	Reserve func(ctx context.Context, bytes int64) (*release.Handle, error)
	// Observe is called with every request that has ended; nil observes nothing.
	Observe func(Request)
	// Clock measures requests for Observe; nil reports that they took no time.
	Clock func() time.Time
}

// Request is one request to remote storage that has ended.
type Request struct {
	Store     string // the Kind's name
	Operation Operation
	Outcome   Outcome
	Bytes     int64 // bytes of response bodies that were received
	Again     bool  // whether the request was a retry
	Took      time.Duration
}

// Operation is the purpose of a request, as metrics call it.
type Operation string

// Outcome is how a request ended, as metrics call it.
type Outcome string

// Kinds maps schemes to the kinds of storage that serve them.
type Kinds map[string]*Kind

// NewKinds returns the Kinds that have the given kinds.
func NewKinds(kinds ...*Kind) Kinds {
	out := Kinds{}
	for _, k := range kinds {
		for _, scheme := range k.Schemes {
			out[scheme] = k
		}
	}
	return out
}

// Of returns the kind that serves a location, or nil.
func (k Kinds) Of(location string) *Kind { return k[Scheme(location)] }

// All returns the kinds in order of their names.
func (k Kinds) All() []*Kind {
	all := slices.SortedFunc(maps.Values(k), func(a, b *Kind) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

// Canonical returns a location with the first scheme of its kind, so that locations with equivalent
// schemes can be compared.
func (k Kinds) Canonical(location string) string {
	scheme := Scheme(location)
	if kind := k[scheme]; kind != nil {
		return kind.Schemes[0] + location[len(scheme):]
	}
	return location
}

// Concern reports whether a property belongs to one of the kinds of storage.
func (k Kinds) Concern(property string) bool {
	for _, kind := range k {
		if slices.ContainsFunc(kind.Prefixes, func(prefix string) bool { return strings.HasPrefix(property, prefix) }) {
			return true
		}
	}
	return false
}

// OfCredential reports whether a property is part of a vended credential, and so is useless without
// the other parts.
func (k Kinds) OfCredential(property string) bool {
	for _, kind := range k {
		if slices.Contains(kind.Credential, property) || slices.Contains(kind.Expiry, property) {
			return true
		}
	}
	return false
}

// Expires returns when the credential in properties expires, or the zero time.
func (k Kinds) Expires(properties map[string]string) time.Time {
	for _, kind := range k.All() {
		for _, name := range kind.Expiry {
			if ms, err := strconv.ParseInt(properties[name], 10, 64); err == nil && ms > 0 {
				return time.UnixMilli(ms)
			}
		}
	}
	return time.Time{}
}

// Properties returns the names of the properties that any kind reads.
func (k Kinds) Properties() []string {
	var out []string
	for _, kind := range k.All() {
		out = append(out, kind.Properties...)
	}
	return out
}

// Check returns the first error that a kind's Check returns for a catalog's properties.
func (k Kinds) Check(properties map[string]string) error {
	for _, kind := range k.All() {
		if err := kind.Check(properties); err != nil {
			return err
		}
	}
	return nil
}

// Served returns the remedy for files on storage that none of the kinds serves.
func (k Kinds) Served() string {
	places := []string{"local disk (file:///path)"}
	for _, kind := range k.All() {
		places = append(places, kind.Example)
	}
	return "keep the files on " + strings.Join(places, " or on ")
}

// Refuse returns the error for a location whose scheme none of the kinds serves.
func (k Kinds) Refuse(location string) error {
	return refuse(location, "scheme %q of %s is not supported by this version", Scheme(location), location).WithRemedy("%s", k.Served())
}
