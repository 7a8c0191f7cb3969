package icebergcat

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// tableOf names one table of a catalog: one made anew under its name is another one, to
// which other keys belong.
type tableOf struct{ name, uuid string }

// mostGranted bounds the tables whose grants are remembered; beyond it all are asked for
// anew.
const mostGranted = 1000

// granted are the tables of a catalog that gives keys for each.
type granted struct {
	mu     sync.Mutex
	tables map[tableOf]*tableAccess
}

// tableAccess opens the files of one table with what its catalog gave for it, by the
// longest prefix of their locations. It lives on while streams that opened files of the
// table do: their keys are renewed through it.
type tableAccess struct {
	catalog *Catalog
	name    string

	asking chan struct{} // held by who asks the catalog for grants

	mu     sync.Mutex
	asked  bool            // the catalog has said what it gives
	grants []grantedAccess // by falling length of prefixes
}

// grantedAccess is a grant and the access that uses it.
type grantedAccess struct {
	locator.Grant
	access *access
}

// accessTo is how files of a table are opened that was just located.
func (c *Catalog) accessTo(of tableOf, grants []locator.Grant) opener {
	if _, gives := c.tables.(locator.Granter); !gives {
		return c.access
	}
	a := c.granted.of(c, of)
	a.take(grants)
	return a
}

// opener opens the files of a table.
type opener interface {
	open(ctx context.Context, location string, size int64) (store.Object, error)
}

// of returns the access to a table, which may have no grants yet.
func (g *granted) of(c *Catalog, of tableOf) *tableAccess {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.tables[of]; a != nil {
		return a
	}
	if g.tables == nil || len(g.tables) >= mostGranted {
		g.tables = map[tableOf]*tableAccess{}
	}
	a := &tableAccess{catalog: c, name: of.name, asking: make(chan struct{}, 1)}
	g.tables[of] = a
	return a
}

// Open opens a file of a pinned table. See catalog.Opener.
func (c *Catalog) Open(ctx context.Context, t *catalog.Table, location string, size int64) (store.Object, error) {
	source, gives := c.tables.(locator.Granter)
	if !gives || store.Scheme(location) == "" || store.Scheme(location) == "file" {
		return c.access.open(ctx, location, size)
	}
	a := c.granted.of(c, tableOf{name: t.Name, uuid: t.Pin.UUID})
	if !a.known() { // it was forgotten
		if err := a.ask(ctx, source); err != nil {
			return nil, err
		}
	}
	return a.open(ctx, location, size)
}

// known says whether the catalog has said what it gives for the table.
func (a *tableAccess) known() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// open opens a file with the grant whose prefix of its location is the longest. A file that
// none is for is opened as those of all tables are.
func (a *tableAccess) open(ctx context.Context, location string, size int64) (store.Object, error) {
	a.mu.Lock()
	files := a.catalog.access
	for _, g := range a.grants {
		if strings.HasPrefix(bucketOf(location), bucketOf(g.Prefix)) {
			files = g.access
			break
		}
	}
	a.mu.Unlock()
	return files.open(ctx, location, size)
}

// bucketOf is a location with one of the schemes that mean S3 in place of the others.
func bucketOf(location string) string {
	scheme := store.Scheme(location)
	if slices.Contains(s3Schemes(), scheme) {
		return "s3" + location[len(scheme):]
	}
	return location
}

// take puts newer grants in the place of those that there are. A prefix whose properties
// are the same but for its keys goes on with the access that it has.
func (a *tableAccess) take(grants []locator.Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.grants
	a.grants, a.asked = nil, true
	for _, g := range grants {
		next := grantedAccess{Grant: g}
		i := slices.IndexFunc(old, func(o grantedAccess) bool {
			return o.Prefix == g.Prefix && hasKeys(o.Properties) == hasKeys(g.Properties) &&
				maps.Equal(withoutKeys(o.Properties), withoutKeys(g.Properties))
		})
		if i >= 0 {
			next.access = old[i].access
		} else {
			next.access = a.newAccess(g)
		}
		a.grants = append(a.grants, next)
	}
	slices.SortStableFunc(a.grants, func(x, y grantedAccess) int { return cmp.Compare(len(bucketOf(y.Prefix)), len(bucketOf(x.Prefix))) })
}

// newAccess makes the access of a grant: with the catalog's properties, and the grant's in
// place of those of the same names. Keys of a grant hold in place of all that says who
// the catalog's are.
func (a *tableAccess) newAccess(g locator.Grant) *access {
	c := a.catalog
	properties := maps.Clone(c.access.properties)
	if properties == nil {
		properties = map[string]string{}
	}
	out := &access{local: c.access.local, make: c.access.make, properties: properties}
	if hasKeys(g.Properties) {
		maps.DeleteFunc(properties, func(name, _ string) bool { return saysWho(name) })
		out.keys = (&lease{table: a, prefix: g.Prefix}).next
	}
	maps.Copy(properties, withoutKeys(g.Properties))
	return out
}

// The properties of a key.
const (
	propertyKeyID   = "s3.access-key-id"
	propertySecret  = "s3.secret-access-key"
	propertySession = "s3.session-token"
)

func hasKeys(properties map[string]string) bool { return properties[propertyKeyID] != "" }

// withoutKeys are properties without the keys that change, and when they end.
func withoutKeys(properties map[string]string) map[string]string {
	out := maps.Clone(properties)
	for _, name := range []string{propertyKeyID, propertySecret, propertySession, "s3.session-token-expires-at-ms", "expiration-time"} {
		delete(out, name)
	}
	return out
}

// saysWho says whether a property is of an identity: of keys, a role, a profile or nobody.
func saysWho(name string) bool {
	_, of, _ := strings.Cut(name, ".")
	switch of {
	case "access-key-id", "secret-access-key", "session-token", "role-arn", "role-session-name", "profile-name", "anonymous":
		return strings.HasPrefix(name, "s3.") || strings.HasPrefix(name, "client.")
	}
	return false
}

// ask asks the catalog for grants.
func (a *tableAccess) ask(ctx context.Context, source locator.Granter) error {
	parts, err := catalog.Parts(a.name)
	if err != nil {
		return err
	}
	held := a.catalog.hold(a.name)
	defer held.Release()
	file := a.catalog.allow(subject{what: "metadata", table: a.name}, held)
	grants, err := source.Grants(ctx, locator.Table{Name: a.name, Parts: parts, Most: a.catalog.options.MaxMetadata, Charge: file.charge})
	if err != nil {
		return err
	}
	a.take(grants)
	return nil
}

// find is the grant of a prefix.
func (a *tableAccess) find(prefix string) (locator.Grant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.grants, func(g grantedAccess) bool { return g.Prefix == prefix && hasKeys(g.Properties) })
	if i < 0 {
		return locator.Grant{}, false
	}
	return a.grants[i].Grant, true
}

// lease gives the keys of one grant, again and again.
type lease struct {
	table  *tableAccess
	prefix string
	given  Key // the last one; of who asks the table's catalog
}

// A key is asked for anew a quarter of its life before it ends, at the most so long, and
// is not given out for less than a moment.
const (
	earlyPart  = 4
	earlyMost  = time.Minute
	leastValid = time.Second
)

// next gives the keys that are good now. Who asks again for what was given has been told
// by storage or by the clock that it has ended: then the catalog is asked anew.
func (l *lease) next(ctx context.Context) (Key, error) {
	a := l.table
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	case <-ctx.Done():
		return Key{}, context.Cause(ctx)
	}
	if key, ok := l.now(); ok && !same(key, l.given) {
		l.given = key
		return key, nil
	}
	source, ok := a.catalog.tables.(locator.Granter)
	if !ok {
		return Key{}, fault.New(fault.Internal, "the catalog of table %s gives no keys", a.name).In(a.name, "")
	}
	if err := a.ask(ctx, source); err != nil {
		return Key{}, fault.Op(err, "renew the keys of table %s", a.name)
	}
	key, ok := l.now()
	if !ok {
		return Key{}, fault.New(fault.Unavailable, "the catalog gives no keys for files of table %s below %q that are good now", a.name, l.prefix).
			In(a.name, "").WithRemedy("see that the catalog still vends credentials for the table, and that the clocks agree")
	}
	l.given = key
	return key, nil
}

func same(a, b Key) bool {
	return a.AccessKeyID == b.AccessKeyID && a.SecretAccessKey == b.SecretAccessKey && a.SessionToken == b.SessionToken
}

// now is the key of the grant, if it is still good.
func (l *lease) now() (Key, bool) {
	g, ok := l.table.find(l.prefix)
	if !ok {
		return Key{}, false
	}
	key := Key{AccessKeyID: g.Properties[propertyKeyID], SecretAccessKey: g.Properties[propertySecret], SessionToken: g.Properties[propertySession]}
	clock := l.table.catalog.options.Clock
	if g.Expires.IsZero() || clock == nil {
		key.Expires = g.Expires
		return key, true
	}
	left := g.Expires.Sub(clock())
	key.Expires = g.Expires.Add(-min(left/earlyPart, earlyMost))
	return key, left > leastValid
}
