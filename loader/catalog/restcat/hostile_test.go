package restcat_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// A server with endless redirects is called a few times, and the error for a redirect to
// another host names the host.
func TestRedirectsEnd(t *testing.T) {
	s := serve(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	s.Asked()
	failing(s, -1, func(w http.ResponseWriter) {
		w.Header().Set("Location", "/v1/namespaces/ml/tables/events")
		w.WriteHeader(http.StatusFound)
	})
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "answers 302")
	require.LessOrEqual(t, len(s.Asked()), 6)

	failing(s, -1, func(w http.ResponseWriter) {
		w.Header().Set("Location", "https://u:s3cret@lake:8181/v1?token=s3cret")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "answers 301")
	require.Contains(t, fault.As(err).Remedy, "https://xxxxx@lake:8181/v1")
	require.NotContains(t, fault.As(err).Remedy, "s3cret")
}

// Some servers repeat the request that they refuse: the error shows none of its secrets.
func TestRepeatedSecretsAreHidden(t *testing.T) {
	s := serve(t)
	long := strings.Repeat("x", 280)
	refuse := func(w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		said := strings.NewReplacer(`"`, "", `\`, "").Replace(r.Header.Get("Authorization") + " " + r.Header.Get("X-Key") + " " + string(body))
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error": {"message": "no: `+said+`", "type": "X"}}`)
		return true
	}
	for name, properties := range map[string]map[string]string{
		"a token":      {"token": "given-s3cret"},
		"a header":     {"header.X-Key": "s3cret"},
		"a client":     {"credential": "penstock:a s3cret/+&%"},
		"no id":        {"credential": "a s3cret/+&%"},
		"another name": {"header.Authorization": "Basic s3cret"},
	} {
		s.Change(func(s *restcattest.Server) { s.Fault = refuse })
		_, err := open(t, s, restcat.Options{Properties: properties})
		isFault(t, err, fault.Unavailable, "no: ")
		require.Contains(t, err.Error(), "xxxxx", name)
	}
	// Also of a message that is cut within one.
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error": {"message": "`+long+r.Header.Get("Authorization")+`", "type": "X"}}`)
			return true
		}
	})
	_, err := open(t, s, restcat.Options{Properties: map[string]string{"token": "given-s3cret-" + long}})
	isFault(t, err, fault.Unavailable)
	require.NotContains(t, err.Error(), "given")
}

// Tokens received for a credential are secrets too.
func TestReceivedTokensAreHidden(t *testing.T) {
	s := serve(t)
	s.Client, s.Secret = "penstock", "s3cret"
	c, err := open(t, s, restcat.Options{Properties: map[string]string{"credential": "penstock:s3cret"}})
	require.NoError(t, err)
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error": {"message": "no: `+r.Header.Get("Authorization")+`", "type": "X"}}`)
			return true
		}
	})
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "no: Bearer xxxxx")
}

// Some servers send the lifetime of a token as text, which RFC 6749 does not allow.
func TestTokenLifetimes(t *testing.T) {
	for life, asked := range map[string]int{`"3600"`: 1, `3600`: 1, `3.6e3`: 1, `null`: 1, `0`: 1, `-5`: 1, `1e300`: 1, `"1"`: 3} {
		s := serve(t)
		s.Client, s.Secret = "penstock", "s3cret"
		given := 0
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			given++
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token": "given", "token_type": "bearer", "expires_in": `+life+`}`)
			return true
		}
		s.Token = "given"
		var clock atomic.Int64
		now := func() time.Time { return time.Unix(clock.Load(), 0) }
		clock.Store(1_000_000)
		c, err := open(t, s, restcat.Options{Clock: now, Properties: map[string]string{"credential": "penstock:s3cret"}})
		require.NoError(t, err, life)
		for range 2 {
			clock.Add(60)
			_, err = c.Locate(t.Context(), events())
			require.NoError(t, err, life)
		}
		require.Equal(t, asked, given, life)
	}
}

// A token server that hangs does not block callers whose token is still valid.
func TestHangingTokenServerDoesNotBlockValidTokens(t *testing.T) {
	s := serve(t)
	s.Token = "given"
	var asked atomic.Int32
	end := make(chan struct{})
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			<-end
		}
		_, _ = io.WriteString(w, `{"access_token": "given", "expires_in": 3600}`)
	}))
	t.Cleanup(tokens.Close)
	t.Cleanup(func() { close(end) })
	var clock atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	c, err := open(t, s, restcat.Options{Clock: now, Timeout: 2 * time.Second, Properties: map[string]string{
		"credential": "penstock:s3cret", "oauth2-server-uri": tokens.URL,
	}})
	require.NoError(t, err)
	clock.Store(int64(59*time.Minute + 30*time.Second))
	for range 3 {
		_, err = c.Locate(t.Context(), events())
		require.NoError(t, err)
	}
	require.Equal(t, int32(2), asked.Load(), "it is tried again later")
	clock.Store(int64(61 * time.Minute))
	_, err = c.Locate(t.Context(), events())
	isFault(t, err, fault.Unavailable, "did not answer")
}

// A cancelled call does not wait for the token that another call has requested.
func TestCancelledCallsDoNotWaitForAToken(t *testing.T) {
	var ended atomic.Bool // the token
	asked, end, refuse := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.HasSuffix(r.URL.Path, "/oauth/tokens")
		switch {
		case !ended.Load() && token:
			_, _ = io.WriteString(w, `{"access_token": "t1", "token_type": "bearer"}`)
		case !ended.Load():
			_, _ = io.WriteString(w, `{}`)
		case token:
			asked <- struct{}{}
			<-end
		default:
			if strings.HasSuffix(r.URL.Path, "clicks") { // while the other one asks for a token
				<-refuse
			}
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	c, err := restcat.Open(t.Context(), restcat.Options{Name: "lake", URI: s.URL, Clock: time.Now, Properties: map[string]string{"credential": "c:s3cret"}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ended.Store(true)
	first, second := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(first)
		_, _ = c.Locate(t.Context(), events())
	}()
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		_, err := c.Locate(ctx, locator.Table{Name: "raw.clicks", Parts: []string{"raw", "clicks"}})
		second <- err
	}()
	<-asked
	close(refuse)
	time.Sleep(10 * time.Millisecond) // for the second to stand behind the first; without it the test sees less
	leave()
	require.ErrorIs(t, <-second, context.Canceled)
	close(end)
	<-first
}

// The limit max_metadata does not apply to responses that are too large and are not tables.
func TestConfigurationThatIsTooLarge(t *testing.T) {
	s := serve(t)
	s.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, strings.Repeat(" ", 5<<20))
		return true
	}
	_, err := open(t, s, restcat.Options{})
	isFault(t, err, fault.Exhausted, "more than 4194304 bytes", "that of an Iceberg REST catalog")
	require.NotContains(t, err.Error(), "max_metadata")
}

// Users often configure a server by the URI of its requests, which ends in /v1.
func TestURIWithVersion(t *testing.T) {
	s := serve(t)
	_, err := open(t, s, restcat.Options{URI: "/v1/"})
	isFault(t, err, fault.Unavailable, "answers 404", "without /v1")
}
