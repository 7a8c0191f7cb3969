package restcat_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

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

// Times that are too large for a duration do not count.
//
// spec: catalog-7
func TestClientsLearnWhenToRetry(t *testing.T) {
	s := serve(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	for after, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "": 0, "-1": 0, "soon": 0, "9999999999": 0, "10000000000": 0, "9223372036854775807": 0, "99999999999999999999": 0,
	} {
		failing(s, -1, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusConflict)
		})
		_, err := c.Locate(t.Context(), events())
		require.Equal(t, want, fault.As(err).RetryAfter, after)
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
