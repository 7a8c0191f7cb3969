package restcat_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

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

// spec: catalog-6
func TestTokens(t *testing.T) {
	s := serve(t)
	s.Token = "s3cret"
	c, err := open(t, s, restcat.Options{Properties: map[string]string{"token": "s3cret"}})
	require.NoError(t, err)
	_, err = c.Locate(t.Context(), events())
	require.NoError(t, err)
	s.Change(func(s *restcattest.Server) { s.Token = "another" })
	s.Asked()
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "answers 401: Not authorized", "correct the catalog's token or credential")
	require.Len(t, s.Asked(), 1, "a token that is refused is not tried again")
	_, err = open(t, s, restcat.Options{})
	isFault(t, err, fault.Unavailable, "answers 401")
}

// spec: catalog-6
func TestClientCredentials(t *testing.T) {
	s := serve(t)
	s.Client, s.Secret, s.Scope, s.Lifetime = "penstock", "s3cret:+&", "PRINCIPAL_ROLE:ALL", time.Hour
	var clock atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	asked := func(c *restcat.Catalog) []string {
		t.Helper()
		s.Asked()
		_, err := c.Locate(t.Context(), events())
		require.NoError(t, err)
		return s.Asked()
	}
	const tokens, load = "POST /v1/oauth/tokens", "GET /v1/namespaces/ml/tables/events"
	c, err := open(t, s, restcat.Options{Clock: now, Properties: map[string]string{"credential": "penstock:s3cret:+&", "scope": s.Scope}})
	require.NoError(t, err)
	require.Equal(t, []string{tokens, "GET /v1/config"}, s.Asked())
	require.Equal(t, []string{load}, asked(c), "one token for many questions")

	clock.Store(int64(59*time.Minute + 30*time.Second))
	require.Equal(t, []string{tokens, load}, asked(c), "another one before the first ends")
	require.Equal(t, []string{load}, asked(c))
	s.Revoke()
	require.Equal(t, []string{load, tokens, load}, asked(c), "another one for one that is refused")

	s.Revoke()
	var group errgroup.Group
	s.Asked()
	for range 8 {
		group.Go(func() error {
			_, err := c.Locate(t.Context(), events())
			return err
		})
	}
	require.NoError(t, group.Wait())
	given := 0
	for _, r := range s.Asked() {
		if r == tokens {
			given++
		}
	}
	require.Equal(t, 1, given, "one for all callers")

	for _, wrong := range []string{"penstock:s3cret", "s3cret"} {
		_, err = open(t, s, restcat.Options{Properties: map[string]string{"credential": wrong, "scope": s.Scope}})
		isFault(t, err, fault.Unavailable, "returned no token: 401 invalid_client unknown client", "correct credential, scope and oauth2-server-uri")
	}
	elsewhere := restcattest.Start(t)
	_, err = open(t, s, restcat.Options{Properties: map[string]string{
		"credential": "penstock:s3cret:+&", "scope": s.Scope, "oauth2-server-uri": elsewhere.URL + "/v1/oauth/tokens",
	}})
	isFault(t, err, fault.Unavailable, "returned no token")
	require.Equal(t, []string{tokens}, elsewhere.Asked())
}

// failing answers the first n requests for tables with a status.
func failing(s *restcattest.Server, n int, how func(w http.ResponseWriter)) {
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if n == 0 || !strings.Contains(r.URL.Path, "/tables/") {
				return false
			}
			n--
			how(w)
			return true
		}
	})
}

// spec: catalog-7
func TestTemporaryErrorsAreRetried(t *testing.T) {
	s := serve(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	for name, how := range map[string]func(http.ResponseWriter){
		"500": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"503": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"429": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"419": func(w http.ResponseWriter) { w.WriteHeader(419) },
		"cut": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"metadata": {`))
		},
		"cut by a proxy that sends the rest as whole": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"metadata": {`)) },
		"nothing":                  func(http.ResponseWriter) {},
		"a connection that breaks": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		failing(s, 2, how)
		s.Asked()
		at, err := c.Locate(t.Context(), events())
		require.NoError(t, err, name)
		require.Equal(t, text, string(at.Text), name)
		require.Len(t, s.Asked(), 3, name)
	}
	failing(s, -1, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
	_, err = c.Locate(ctx, events())
	require.ErrorContains(t, err, "enough")
	s.Asked()
	for status, remedy := range map[int]string{403: "allow the identity", 400: "uri, warehouse and prefix", 409: "check why the catalog does not respond"} {
		failing(s, -1, func(w http.ResponseWriter) { w.WriteHeader(status) })
		_, err := c.Locate(t.Context(), events())
		isFault(t, err, fault.Unavailable, fmt.Sprintf("answers %d", status), remedy)
		require.Len(t, s.Asked(), 1, "%d is no failure that passes", status)
	}
}

// A response that is not a table, or is too large, is an error, and never an incomplete
// table.
//
// spec: catalog-7
func TestInvalidResponsesAreErrors(t *testing.T) {
	s := serve(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	for _, body := range []string{"<html>busy</html>", `{}`, `{"metadata": null}`, `{"metadata": {}}]`} {
		failing(s, -1, func(w http.ResponseWriter) { _, _ = w.Write([]byte(body)) })
		_, err := c.Locate(t.Context(), events())
		isFault(t, err, fault.Corrupt, "load table ml.events")
	}
	short, err := open(t, s, restcat.Options{Timeout: 10 * time.Second})
	require.NoError(t, err)
	failing(s, -1, func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"metadata": {`)) })
	s.Asked()
	_, err = short.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "its answer ends early, after 14 bytes", "check that")
	require.Len(t, s.Asked(), 6)
	failing(s, 0, nil)
	for _, known := range []bool{true, false} {
		long := `{"metadata": {"x": "` + strings.Repeat("x", 1<<20) + `"}}`
		failing(s, -1, func(w http.ResponseWriter) {
			if known {
				w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			}
			_, _ = w.Write([]byte(long))
		})
		table := events()
		table.Most = 1 << 19
		charged := int64(0)
		table.Charge = func(n int64) error { charged += n; return nil }
		_, err := c.Locate(t.Context(), table)
		isFault(t, err, fault.Exhausted, "max_metadata")
		require.Less(t, charged, int64(2<<20))
		table.Most = 1 << 21
		_, err = c.Locate(t.Context(), table)
		require.NoError(t, err)
		require.Greater(t, charged, int64(2<<20), "the answer and the copy of the metadata")
		table.Charge = func(int64) error { return fault.New(fault.Exhausted, "full") }
		_, err = c.Locate(t.Context(), table)
		isFault(t, err, fault.Exhausted, "full")
	}
}

// spec: catalog-7
func TestTimeout(t *testing.T) {
	s := serve(t)
	c, err := open(t, s, restcat.Options{Timeout: 200 * time.Millisecond})
	require.NoError(t, err)
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-end:
			case <-r.Context().Done():
			}
			return true
		}
	})
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "did not answer within 200ms", "storage_timeout")
}

// A token is never sent to a server that it was not given for.
//
// spec: catalog-9
func TestRedirects(t *testing.T) {
	s, other := serve(t), serve(t)
	s.Token = "s3cret"
	c, err := open(t, s, restcat.Options{Properties: map[string]string{"token": "s3cret"}})
	require.NoError(t, err)
	failing(s, -1, func(w http.ResponseWriter) {
		w.Header().Set("Location", other.URL+"/v1/namespaces/ml/tables/events")
		w.WriteHeader(http.StatusFound)
	})
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "answers 302")
	require.Empty(t, other.Asked())
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

// A server's configuration that names another server for what proves who the block is ends the start, before that server is
// asked; the block itself may name it.
//
// spec: catalog-9
func TestConfigurationOfAnotherServer(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"a token":      {"token": "s3cret"},
		"a credential": {"credential": "penstock:s3cret"},
		"a header":     {"header.Authorization": "Basic s3cret"},
		"signatures":   {"rest.sigv4-enabled": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			s, other := serve(t), serve(t)
			s.Client, s.Secret = "penstock", "s3cret"
			if given["credential"] == "" {
				s.Client, s.Token = "", given["token"]
			}
			for _, uri := range []string{other.URL, strings.Replace(s.URL, "http:", "https:", 1), "http://u:s3cret@lake:1/x"} {
				s.Change(func(s *restcattest.Server) { s.Overrides = map[string]string{"uri": uri} })
				_, err := open(t, s, restcat.Options{Properties: given, Sign: unsigned})
				isFault(t, err, fault.Invalid, "the server's configuration", "uri: it names ", "write it as uri of the block")
				require.Empty(t, other.Asked())
			}
			s.Change(func(s *restcattest.Server) { s.Overrides = map[string]string{"uri": s.URL + "/"} })
			_, err := open(t, s, restcat.Options{Properties: given, Sign: unsigned})
			require.NoError(t, err, "the same server")
		})
	}
	s, other := serve(t), serve(t)
	s.Overrides = map[string]string{"uri": other.URL}
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err, "without anything to lose")
	_, err = c.Locate(t.Context(), events())
	require.NoError(t, err)
	require.NotEmpty(t, other.Asked())
}

// unsigned signs nothing.
func unsigned(restcat.Signing) (restcat.Signer, error) {
	return func(*http.Request) error { return nil }, nil
}

// The credential is only sent to token servers that the block names.
//
// spec: catalog-9
func TestConfigurationOfAnotherTokenServer(t *testing.T) {
	given := map[string]string{"credential": "penstock:s3cret"}
	for _, property := range []string{"oauth2-server-uri", "rest.authorization-url"} {
		for _, into := range []func(*restcattest.Server, map[string]string){
			func(s *restcattest.Server, of map[string]string) { s.Overrides = of },
			func(s *restcattest.Server, of map[string]string) { s.Defaults = of },
		} {
			s, other := serve(t), serve(t)
			s.Client, s.Secret, s.Token = "penstock", "s3cret", "s3cret"
			into(s, map[string]string{property: other.URL + "/v1/oauth/tokens"})
			_, err := open(t, s, restcat.Options{Properties: given})
			isFault(t, err, fault.Invalid, property+": it names ", "write it as "+property+" of the block")
			require.Empty(t, other.Asked())
			into(s, map[string]string{property: s.URL + "/v1/oauth/tokens"})
			_, err = open(t, s, restcat.Options{Properties: given})
			require.NoError(t, err, "the catalog's own server")
			into(s, map[string]string{property: other.URL + "/v1/oauth/tokens"})
			_, err = open(t, s, restcat.Options{Properties: map[string]string{"token": "s3cret"}})
			require.NoError(t, err, "a token is not sent there")
		}
	}
	s, other := serve(t), serve(t)
	other.Client, other.Secret = "penstock", "s3cret"
	s.Overrides = map[string]string{"oauth2-server-uri": other.URL + "/v2"}
	_, err := open(t, s, restcat.Options{Properties: map[string]string{"credential": "penstock:s3cret", "oauth2-server-uri": other.URL + "/v1/oauth/tokens"}})
	require.NoError(t, err, "a server that the block names, at another path")
}

// A server that does not answer Open is asked again, with a delay, until it does.
func TestServersThatAnswerLater(t *testing.T) {
	s := serve(t)
	s.Defaults = map[string]string{"s3.region": "a"}
	down := func(status int) {
		s.Change(func(s *restcattest.Server) {
			s.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(status)
				return status != 0
			}
		})
	}
	down(http.StatusForbidden)
	now, unreachable := time.Unix(0, 0), error(nil)
	c, err := open(t, s, restcat.Options{Clock: func() time.Time { return now }, Unreachable: func(err error) { unreachable = err }})
	require.NoError(t, err)
	isFault(t, unreachable, fault.Unavailable, "ask for the configuration", "403")
	s.Asked()
	_, err = c.Locate(t.Context(), events())
	require.Equal(t, unreachable, err)
	require.Empty(t, s.Asked(), "it was asked just now")
	for range 2 {
		now = now.Add(time.Second)
		_, err = c.Locate(t.Context(), events())
		isFault(t, err, fault.Unavailable, "403")
		require.Len(t, s.Asked(), 1)
	}
	_, err = c.Properties(t.Context())
	isFault(t, err, fault.Unavailable, "403")
	_, err = c.List(t.Context())
	isFault(t, err, fault.Unavailable, "403")
	s.Change(func(s *restcattest.Server) {
		s.Fault, s.Overrides = nil, map[string]string{"s3.remote-signing-enabled": "true"}
	})
	now = now.Add(time.Minute)
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "remote signing") // the query is right
	s.Change(func(s *restcattest.Server) { s.Overrides = nil })
	now = now.Add(time.Minute)
	_, err = c.Locate(t.Context(), events())
	require.NoError(t, err)
	properties, err := c.Properties(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"s3.region": "a"}, properties)
}

// A mistake in the properties is an error, whether or not the server answers.
func TestMistakesEndOpen(t *testing.T) {
	s := serve(t)
	s.Overrides = map[string]string{"s3.remote-signing-enabled": "true"}
	_, err := open(t, s, restcat.Options{Unreachable: func(error) { t.Error("the server answers") }})
	isFault(t, err, fault.Invalid, "remote signing")
}
