package restcat

import (
	"bytes"
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
)

// client sends requests to a server, according to the server's configuration.
type client struct {
	options    Options
	base       *url.URL          // the server's URL, without /v1
	properties map[string]string // the properties in Options, merged with those of the server
	headers    http.Header
	secrets    []string // the secret values in properties
	http       *http.Client
	tokens     *tokens // nil if requests have no token
	sign       Signer  // nil if requests are not signed
}

// delegationHeader is the header that asks for credentials for a table's files, and delegation is
// its value.
const (
	delegationHeader = "X-Iceberg-Access-Delegation"
	delegation       = "vended-credentials"
)

// maxRedirects is the maximum number of redirects that a request follows.
const maxRedirects = 5

// sameHost stops a redirect to another server, because that server must not receive the token. It
// also stops a redirect that changes the method, because this would turn a commit into a read.
func sameHost(r *http.Request, via []*http.Request) error {
	first := via[0]
	if !sameServer(r.URL, first.URL) || r.Method != first.Method || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// configure sets the fields of c from properties.
func (c *client) configure(properties map[string]string) error {
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
		return fault.InvalidField(propertySigV4, "signed requests are not supported by this version")
	}
	service := properties[propertySignName]
	if service == "" {
		service = "execute-api"
	}
	c.sign, err = c.options.Sign(Signing{Region: properties[propertySignRegion], Service: service, Properties: properties})
	return err
}

// maxConfig is the maximum size of a server's configuration in bytes. It also applies to each page
// of a list.
const maxConfig = 4 << 20

// ask requests the server's configuration and applies it. The properties in Options override the
// defaults in the configuration, and the overrides in the configuration override the properties in
// Options.
func (c *client) ask(ctx context.Context) error {
	query := url.Values{}
	if c.options.Warehouse != "" {
		query.Set(propertyWarehouse, c.options.Warehouse)
	}
	content, err := c.get(ctx, "/v1/config", query, call{what: "ask for the configuration", max: maxConfig})
	if err != nil {
		return err
	}
	var answer struct {
		Defaults  map[string]string `json:"defaults"`
		Overrides map[string]string `json:"overrides"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return fault.New(fault.Invalid, "catalog %s: %s is not an Iceberg REST catalog: its configuration cannot be read", c.options.Name, c.base.Redacted()).
			WithRemedy("correct the catalog's uri: the part before /v1/config")
	}
	merged := map[string]string{}
	for _, from := range []map[string]string{answer.Defaults, c.options.Properties, answer.Overrides} {
		maps.Copy(merged, from)
	}
	if err := c.stays(answer.Overrides[propertyURI], merged); err != nil {
		return fault.Op(err, "catalog %s: the server's configuration", c.options.Name)
	}
	tokens := c.tokens
	if err := c.configure(merged); err != nil {
		return fault.Op(err, "catalog %s: the server's configuration", c.options.Name)
	}
	if tokens != nil && c.tokens != nil && tokens.same(c.tokens) {
		c.tokens = tokens // they may already have a valid token
	}
	return nil
}

// same reports whether t and other get their tokens from the same source.
func (t *tokens) same(other *tokens) bool {
	if t.grant == nil || other.grant == nil {
		return t.grant == other.grant && t.token == other.token
	}
	return t.grant.endpoint == other.grant.endpoint && t.grant.form.Encode() == other.grant.form.Encode()
}

// get sends a GET request.
func (c *client) get(ctx context.Context, path string, query url.Values, q call) ([]byte, error) {
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
	if q.decode == nil {
		q.decode = anyJSON
	}
	return c.send(ctx, q)
}

// post returns a request with a body.
func (c *client) post(ctx context.Context, path string, content []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	r.Header = c.headers.Clone()
	r.Header.Del(delegationHeader) // the response to a commit needs no credentials
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// path returns the path of a request: the parts, below the catalog's prefix.
func (c *client) path(parts ...string) string {
	if prefix := strings.Trim(c.properties[propertyPrefix], "/"); prefix != "" {
		parts = slices.Insert(parts, 0, prefix)
	}
	return "/v1/" + strings.Join(parts, "/")
}

// namespace returns a namespace in the form of one escaped part of a path.
func (c *client) namespace(parts []string) string {
	separator := "\x1f"
	if own, err := url.PathUnescape(c.properties[propertySeparator]); err == nil && own != "" {
		separator = own
	}
	return url.PathEscape(strings.Join(parts, separator))
}

// children returns the query parameters for listing the namespaces inside a namespace, or the
// top-level namespaces if parent is empty.
func (c *client) children(parent []string) url.Values {
	query := url.Values{}
	if len(parent) > 0 {
		inside, _ := url.PathUnescape(c.namespace(parent)) // namespace escaped it
		query.Set("parent", inside)
	}
	return query
}

func (c *client) now() time.Time {
	if c.options.Clock == nil {
		return time.Time{}
	}
	return c.options.Clock()
}

func (c *client) random() float64 {
	if c.options.Random == nil {
		return rand.Float64() //nolint:gosec // it only varies the delays between retries
	}
	return c.options.Random()
}
