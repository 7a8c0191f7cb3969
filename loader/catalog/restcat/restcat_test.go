package restcat_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const text = `{"format-version":2}`

func events() locator.Table { return locator.Table{Name: "ml.events", Parts: []string{"ml", "events"}} }

// serve starts a server of one table.
func serve(t *testing.T) *restcattest.Server {
	t.Helper()
	s := restcattest.Start(t)
	s.Names = []string{"ml.events", "raw.eu.clicks"}
	s.Tables = func(namespace []string, name string) (restcattest.Table, bool) {
		full := strings.Join(namespace, ".") + "." + name
		return restcattest.Table{Location: "s3://b/" + full, Metadata: []byte(text)}, full == "ml.events" || full == "raw.eu.clicks"
	}
	return s
}

// open opens a catalog that waits no longer than it must.
func open(t *testing.T, s *restcattest.Server, o restcat.Options) (*restcat.Catalog, error) {
	t.Helper()
	o.Name, o.URI = "lake", s.URL+o.URI
	o.Random = func() float64 { return 0 }
	o.Stores = store.NewKinds(s3.Kind(store.Environment{}))
	if o.Clock == nil {
		o.Clock = time.Now
	}
	c, err := restcat.Open(t.Context(), o)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func isFault(t *testing.T, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
	require.NotContains(t, err.Error(), "s3cret")
}

func TestPaths(t *testing.T) {
	s := serve(t)
	s.Prefix, s.Warehouse = "ws/prod", "wh"
	c, err := open(t, s, restcat.Options{URI: "/", Warehouse: "wh"})
	require.NoError(t, err)
	for name, path := range map[string]string{"ml.events": "ml", "raw.eu.clicks": "raw%1Feu"} {
		parts := strings.Split(name, ".")
		s.Asked()
		at, err := c.Locate(t.Context(), locator.Table{Name: name, Parts: parts})
		require.NoError(t, err)
		require.Equal(t, locator.Located{Location: "s3://b/" + name, Text: []byte(text)}, at)
		require.Equal(t, []string{"GET /v1/ws/prod/namespaces/" + path + "/tables/" + parts[len(parts)-1]}, s.Asked())
	}
	for name, nearest := range map[string]string{"ml.event": "ml.events", "mll.events": "ml.events", "raw.us.clicks": "raw.eu.clicks", "none.of.these": ""} {
		_, err := c.Locate(t.Context(), locator.Table{Name: name, Parts: strings.Split(name, ".")})
		isFault(t, err, fault.NotFound, "table "+name+" does not exist")
		require.Equal(t, nearest, fault.As(err).Faults[0].Nearest, name)
	}
	_, err = open(t, s, restcat.Options{Warehouse: "other"})
	isFault(t, err, fault.Unavailable, "there is no such warehouse", "check that uri, warehouse and prefix")
}

// spec: catalog-8
func TestOptionsAreChecked(t *testing.T) {
	s := serve(t)
	for name, c := range map[string]struct {
		properties map[string]string
		text       string
	}{
		"remote signing":            {map[string]string{"s3.remote-signing-enabled": "true"}, "s3.remote-signing-enabled: remote signing"},
		"remote signing, yes":       {map[string]string{"s3.remote-signing-enabled": "Yes"}, "s3.remote-signing-enabled: remote signing"},
		"remote signing, 1":         {map[string]string{"s3.remote-signing-enabled": "1"}, "s3.remote-signing-enabled: remote signing"},
		"a signer":                  {map[string]string{"s3.signer": "S3V4RestSigner"}, "s3.signer: remote signing"},
		"a header of it":            {map[string]string{"header.x-iceberg-access-delegation": "remote-signing"}, "remote signing is not supported"},
		"signatures that none make": {map[string]string{"rest.sigv4-enabled": "true"}, "rest.sigv4-enabled"},
		"no server of tokens":       {map[string]string{"credential": "a:s3cret", "oauth2-server-uri": "tokens"}, "oauth2-server-uri"},
	} {
		_, err := open(t, s, restcat.Options{Properties: c.properties})
		isFault(t, err, fault.Invalid, c.text)
		require.Empty(t, s.Asked(), name)
	}
	s.Overrides = map[string]string{"s3.remote-signing-enabled": "true"}
	_, err := open(t, s, restcat.Options{})
	isFault(t, err, fault.Invalid, "the server's configuration", "remote signing")
	_, err = restcat.Open(t.Context(), restcat.Options{Name: "lake", URI: "s3://u:s3cret@b"})
	isFault(t, err, fault.Invalid, "not the address of a server")
	_, err = restcat.Open(t.Context(), restcat.Options{Name: "lake", URI: "http://u:s3cret@127.0.0.1:1", Random: func() float64 { return 0 }})
	isFault(t, err, fault.Unavailable, "ask for the configuration", "127.0.0.1:1")
}

// The block's properties override the server's defaults, and the server's overrides override
// both.
//
// spec: catalog-5
func TestConfiguration(t *testing.T) {
	s := serve(t)
	s.Defaults = map[string]string{"s3.region": "a", "s3.endpoint": "http://a"}
	s.Overrides = map[string]string{"s3.endpoint": "http://c"}
	c, err := open(t, s, restcat.Options{Properties: map[string]string{"s3.region": "b", "s3.endpoint": "http://b", "header.X-Own": "1"}})
	require.NoError(t, err)
	properties, err := c.Properties(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"s3.region": "b", "s3.endpoint": "http://c", "header.X-Own": "1"}, properties)
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("X-Own") == "1" {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		}
	})
	_, err = c.Locate(t.Context(), events())
	require.NoError(t, err)
}

func TestGrants(t *testing.T) {
	s := serve(t)
	s.Tables = func([]string, string) (restcattest.Table, bool) {
		return restcattest.Table{
			Location: "s3://b/m", Metadata: []byte(text),
			Config: map[string]string{"s3.endpoint": "http://e", "s3.access-key-id": "c", "s3.secret-access-key": "cs", "s3.session-token": "ct", "client.region": "r"},
			Credentials: []restcattest.Credential{
				{Prefix: "s3://b/x", Config: map[string]string{"s3.access-key-id": "x", "s3.secret-access-key": "xs", "s3.session-token-expires-at-ms": "1700000000000"}},
			},
		}, true
	}
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	want := []locator.Grant{
		{Properties: map[string]string{"s3.endpoint": "http://e", "s3.access-key-id": "c", "s3.secret-access-key": "cs", "s3.session-token": "ct", "client.region": "r"}},
		{
			Prefix: "s3://b/x", Expires: time.UnixMilli(1700000000000),
			Properties: map[string]string{
				"s3.endpoint": "http://e", "client.region": "r", "s3.access-key-id": "x", "s3.secret-access-key": "xs",
				"s3.session-token-expires-at-ms": "1700000000000",
			},
		},
	}
	at, err := c.Locate(t.Context(), events())
	require.NoError(t, err)
	require.Equal(t, want, at.Grants)
	grants, err := c.Grants(t.Context(), events())
	require.NoError(t, err)
	require.Equal(t, want, grants)

	s.Change(func(s *restcattest.Server) {
		s.Tables = func([]string, string) (restcattest.Table, bool) {
			return restcattest.Table{Metadata: []byte(text), Config: map[string]string{"s3.remote-signing-enabled": "true"}}, true
		}
	})
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Invalid, "table ml.events", "s3.remote-signing-enabled", "remote signing")
}
