package restcat_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/restcat"
)

// TestList lists the tables of every namespace, including nested ones, page by page.
func TestList(t *testing.T) {
	want := [][]string{{"ml", "clicks"}, {"ml", "events"}, {"raw", "eu", "ch", "clicks"}, {"raw", "eu", "clicks"}}
	for _, page := range []int{0, 1, 2} {
		s := serve(t)
		s.Names, s.Page, s.Prefix = []string{"ml.clicks", "ml.events", "raw.eu.clicks", "raw.eu.ch.clicks"}, page, "ws"
		c, err := open(t, s, restcat.Options{})
		require.NoError(t, err)
		got, err := c.List(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, want, got, "pages of %d", page)
	}
}

// TestListFailures checks that endless pages, responses that are not lists, and refusals are
// failures, and that a missing list is empty.
func TestListFailures(t *testing.T) {
	for text, want := range map[string]string{
		`{"namespaces": [["ml"]], "next-page-token": "again"}`: "its pages do not end",
		`<html>`: "its answer is not a list",
	} {
		s := serve(t)
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/namespaces" {
				return false
			}
			_, _ = w.Write([]byte(text))
			return true
		}
		c, err := open(t, s, restcat.Options{})
		require.NoError(t, err)
		_, err = c.List(t.Context())
		isFault(t, err, fault.Corrupt, want)
		require.NotEmpty(t, fault.As(err).Remedy)
	}
	s := serve(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		nested := r.URL.Query().Has("parent")
		if nested {
			http.Error(w, `{"error": {"message": "no namespaces within namespaces", "type": "BadRequestException"}}`, http.StatusBadRequest)
		}
		return nested
	}
	got, err := c.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, [][]string{{"ml", "events"}}, got)
	s.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `{"error": {"message": "not you", "type": "ForbiddenException"}}`, http.StatusForbidden)
		return true
	}
	_, err = c.List(t.Context())
	isFault(t, err, fault.Unavailable, "not you")
}
