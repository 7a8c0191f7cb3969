package restcat

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Catalog is an Iceberg REST catalog.
type Catalog struct {
	client    *client
	starting  *starting
	transport *http.Transport // closed by Close; nil if Options has a transport
}

var _ locator.Granter = (*Catalog)(nil)

// Limits of the idle connections to a server.
const (
	keptConnections = 4
	keptFor         = 90 * time.Second
)

// Open requests the configuration of a server and returns its catalog. It returns Invalid if the
// properties are wrong or the server is not an Iceberg REST catalog, and Unavailable if the server
// does not answer or refuses the request.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	base, err := server(propertyURI, o.URI)
	if err != nil {
		return nil, err
	}
	c := &Catalog{client: &client{options: o, base: base}}
	if err := c.client.configure(o.Properties); err != nil {
		return nil, err
	}
	transport := o.Transport
	if transport == nil {
		c.transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: keptConnections, IdleConnTimeout: keptFor,
		}
		transport = c.transport
	}
	c.client.http = &http.Client{Transport: transport, CheckRedirect: sameHost}
	c.starting = newStarting(c.client)
	if err := c.starting.ready(ctx); err != nil {
		if o.Unreachable == nil || fault.KindOf(err) != fault.Unavailable {
			c.Close()
			return nil, err
		}
		o.Unreachable(err)
	}
	return c, nil
}

// Close closes idle connections.
func (c *Catalog) Close() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// Properties returns the properties for the files of all tables: the properties in Options, merged
// with those that the server sent. It asks the server for its configuration if this is not known.
func (c *Catalog) Properties(ctx context.Context) (map[string]string, error) {
	if err := c.starting.ready(ctx); err != nil {
		return nil, err
	}
	return maps.Clone(c.client.properties), nil
}
