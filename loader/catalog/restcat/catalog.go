package restcat

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Catalog is an Iceberg REST catalog.
type Catalog struct {
	options    Options
	base       *url.URL          // of the server, without /v1
	properties map[string]string // what the server says, and what it was told
	headers    http.Header
	secrets    []string // those of the properties
	client     *http.Client
	transport  *http.Transport // the package's own; nil: another one is used
	tokens     *tokens         // nil: there are none
	sign       Signer          // nil: requests are not signed
}

var _ locator.Granter = (*Catalog)(nil)

// How connections to a server are kept.
const (
	keptConnections = 4
	keptFor         = 90 * time.Second
)

// delegationHeader asks for what opens a table's files, and delegation says in which form.
const (
	delegationHeader = "X-Iceberg-Access-Delegation"
	delegation       = "vended-credentials"
)

// Open asks a server for its configuration. What the properties say wrongly is Invalid, a
// server that does not answer or that refuses us Unavailable.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	base, err := server(propertyURI, o.URI)
	if err != nil {
		return nil, err
	}
	c := &Catalog{options: o, base: base}
	if err := c.configure(o.Properties); err != nil {
		return nil, err
	}
	transport := o.Transport
	if transport == nil {
		c.transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: keptConnections, IdleConnTimeout: keptFor,
		}
		transport = c.transport
	}
	c.client = &http.Client{Transport: transport, CheckRedirect: sameHost}
	if err := c.ask(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends connections.
func (c *Catalog) Close() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// Properties are those that hold for the files of all tables: the catalog's own, and the
// server's.
func (c *Catalog) Properties() map[string]string { return maps.Clone(c.properties) }

// mostRedirects is how often a server may send on what it is asked.
const mostRedirects = 5

// sameHost follows no redirect to a server to which nobody gave a token, none that makes
// another question of one (a commit becomes a look), and not for ever.
func sameHost(r *http.Request, via []*http.Request) error {
	first := via[0]
	if r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme || r.Method != first.Method || len(via) > mostRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// configure takes properties.
func (c *Catalog) configure(properties map[string]string) error {
	c.properties, c.secrets = properties, secrets(properties)
	if err := unserved(properties); err != nil {
		return err
	}
	c.headers = http.Header{delegationHeader: {delegation}}
	for name, value := range properties {
		if header, ok := strings.CutPrefix(name, headerPrefix); ok {
			c.headers.Set(header, value)
		}
	}
	var err error
	if c.tokens, err = newTokens(c, properties); err != nil {
		return err
	}
	if !isTrue(properties[propertySigV4]) {
		return nil
	}
	if c.options.Sign == nil {
		return fault.InvalidField(propertySigV4, "signed requests are not served by this version")
	}
	service := properties[propertySignName]
	if service == "" {
		service = "execute-api"
	}
	c.sign, err = c.options.Sign(Signing{Region: properties[propertySignRegion], Service: service, Properties: properties})
	return err
}

// mostConfig is the most bytes of a server's configuration.
const mostConfig = 4 << 20

// ask asks for the configuration: what it has by default stands below the properties, and
// what it overrides above them.
func (c *Catalog) ask(ctx context.Context) error {
	query := url.Values{}
	if c.options.Warehouse != "" {
		query.Set(propertyWarehouse, c.options.Warehouse)
	}
	content, err := c.get(ctx, "/v1/config", query, call{what: "ask for the configuration", most: mostConfig})
	if err != nil {
		return err
	}
	var answer struct {
		Defaults  map[string]string `json:"defaults"`
		Overrides map[string]string `json:"overrides"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return fault.New(fault.Invalid, "catalog %s: %s is no Iceberg REST catalog: its configuration cannot be read", c.options.Name, c.base.Redacted()).
			WithRemedy("correct the catalog's uri: it is what /v1/config follows")
	}
	merged := map[string]string{}
	for _, from := range []map[string]string{answer.Defaults, c.options.Properties, answer.Overrides} {
		maps.Copy(merged, from)
	}
	if uri := answer.Overrides[propertyURI]; uri != "" {
		if c.base, err = server(propertyURI, uri); err != nil {
			return fault.Op(err, "catalog %s: the server's configuration", c.options.Name)
		}
	}
	tokens := c.tokens
	if err := c.configure(merged); err != nil {
		return fault.Op(err, "catalog %s: the server's configuration", c.options.Name)
	}
	if tokens != nil && c.tokens != nil && tokens.same(c.tokens) {
		c.tokens = tokens // what it has is still good
	}
	return nil
}

// same says whether two would ask for the same tokens.
func (t *tokens) same(other *tokens) bool {
	if t.grant == nil || other.grant == nil {
		return t.grant == other.grant && t.token == other.token
	}
	return t.grant.endpoint == other.grant.endpoint && t.grant.form.Encode() == other.grant.form.Encode()
}

// get puts a question to the server by GET.
func (c *Catalog) get(ctx context.Context, path string, query url.Values, q call) ([]byte, error) {
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	q.request = func(ctx context.Context) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return nil, err
		}
		r.Header = c.headers.Clone()
		return r, nil
	}
	return c.send(ctx, q)
}

// path is where something of the catalog is, below its prefix.
func (c *Catalog) path(parts ...string) string {
	if prefix := strings.Trim(c.properties[propertyPrefix], "/"); prefix != "" {
		parts = slices.Insert(parts, 0, prefix)
	}
	return "/v1/" + strings.Join(parts, "/")
}

// namespace is a namespace as it stands in a path.
func (c *Catalog) namespace(parts []string) string {
	separator := "\x1f"
	if own, err := url.PathUnescape(c.properties[propertySeparator]); err == nil && own != "" {
		separator = own
	}
	return url.PathEscape(strings.Join(parts, separator))
}

func (c *Catalog) now() time.Time {
	if c.options.Clock == nil {
		return time.Time{}
	}
	return c.options.Clock()
}

func (c *Catalog) random() float64 {
	if c.options.Random == nil {
		return rand.Float64() //nolint:gosec // it spreads waits
	}
	return c.options.Random()
}
