package restcat_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

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
