package ui_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/ui"
)

// A link admits the browser that opens it first. Opening the next link ends that session.
//
// spec: ui-7
func TestLinkAdmitsOneBrowser(t *testing.T) {
	s := &server{}
	next := ""
	link := ui.NewLink("8880", func(path string) { next = path })
	pages := link.Require(handler(t, s))
	path := link.Renew()
	for _, one := range append(all(), "/assets/page.js", "/enter", "/enter?key=", "/enter?key=A") {
		answer, _ := get(t, pages, one)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, one)
	}
	require.Empty(t, s.calls)

	answer, _ := get(t, pages, path)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	cookie := answer.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
	answer, _ = get(t, pages, "/", "Cookie", cookie.String())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	answer, _ = get(t, pages, "/", "Cookie", cookie.Name+"=A")
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)

	answer, _ = get(t, pages, path)
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode, "a link can be opened once")
	answer, _ = get(t, pages, next)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	answer, _ = get(t, pages, "/", "Cookie", cookie.String())
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode, "the session has ended")
}

// Without a link that was made, no key admits a browser.
func TestOnlyLinksAdmitBrowsers(t *testing.T) {
	pages := ui.NewLink("1", func(string) {}).Require(handler(t, &server{}))
	for _, path := range []string{"/enter", "/enter?key=", "/"} {
		answer, _ := get(t, pages, path)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	}
}

// Behind a proxy, each call carries the token of the request, and requests without a token cause no calls.
//
// spec: ui-8
func TestProxyPassesTokens(t *testing.T) {
	s := &server{}
	pages := ui.ByProxy(handler(t, s))
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic dTpw"} {
		answer, _ := get(t, pages, "/", "Authorization", header)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, header)
	}
	require.Empty(t, s.calls)
	for _, token := range []string{"one", "two"} {
		answer, _ := get(t, pages, "/datasets/homefeed", "Authorization", "Bearer "+token)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		for _, md := range s.calls {
			require.Equal(t, []string{"Bearer " + token}, md.Get("authorization"))
		}
		require.Len(t, s.calls, 3)
		s.calls = nil
	}
}
