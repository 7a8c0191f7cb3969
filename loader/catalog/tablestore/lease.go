package tablestore

import (
	"context"
	"maps"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// lease returns the credentials of one grant for one kind of storage, and renews them.
type lease struct {
	table  *tableFiles
	kind   *store.Kind
	prefix string
	given  store.Credential // the credential that next returned last; guarded by table.asking
}

// A credential is renewed when a quarter of its remaining life is left, or maxEarly before it
// expires, whichever is later. A credential that expires within minValid is not used.
const (
	earlyPart = 4
	maxEarly  = time.Minute
	minValid  = time.Second
)

// next returns a valid credential. If the grant's credential is the one that next returned last,
// that credential has expired or was rejected; next then requests new grants from the catalog.
func (l *lease) next(ctx context.Context) (store.Credential, error) {
	t := l.table
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return store.Credential{}, context.Cause(ctx)
	}
	if c, ok := l.now(); ok && !maps.Equal(c.Properties, l.given.Properties) {
		l.given = c
		return c, nil
	}
	if err := t.ask(ctx); err != nil {
		return store.Credential{}, fault.Op(err, "renew the keys of table %s", t.name)
	}
	c, ok := l.now()
	if !ok {
		return store.Credential{}, fault.New(fault.Unavailable, "the catalog vends no valid credentials for files of table %s below %q", t.name, l.prefix).
			In(t.name, "").WithRemedy("check that the catalog still vends credentials for the table, and that the clocks agree")
	}
	l.given = c
	return c, nil
}

// now returns the credential of the grant. It returns false if there is none, or if it is no longer
// valid.
func (l *lease) now() (store.Credential, bool) {
	g, ok := l.table.find(l.kind, l.prefix)
	if !ok {
		return store.Credential{}, false
	}
	c := l.kind.CredentialOf(g.Properties)
	clock := l.table.files.options.Clock
	if g.Expires.IsZero() || clock == nil {
		c.Expires = g.Expires
		return c, true
	}
	left := g.Expires.Sub(clock())
	c.Expires = g.Expires.Add(-min(left/earlyPart, maxEarly))
	return c, left > minValid
}
