package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"

	"github.com/penstock/penstock/cmd/penstock/client"
)

// Link admits one browser: the first that opens the link. It is safe for concurrent use.
type Link struct {
	cookie string // its name

	mu      sync.Mutex
	key     [sha256.Size]byte // the digest of the link's key
	session [sha256.Size]byte // the digest of the cookie's value
	opened  bool
	renewed func(path string)
}

// NewLink returns a link for the server at a port. Browsers send cookies to all ports of a host, so the port is part of the
// cookie's name. Each time the link was used, renewed is called with the path of a new one, which admits another browser and
// ends the session of the one before.
func NewLink(port string, renewed func(path string)) *Link {
	return &Link{cookie: "penstock-ui-" + port, renewed: renewed}
}

// Renew makes the link that can be opened next, and returns its path. A session that has begun goes on until the new link is opened.
func (l *Link) Renew() (path string) {
	key := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key = sha256.Sum256([]byte(key))
	return enterPath + "?key=" + key
}

// enterPath is the path of links.
const enterPath = "/enter"

// Require returns a handler that passes on the requests of the browser that has opened the link.
func (l *Link) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == enterPath:
			l.enter(w, r)
		case !l.admitted(r):
			refuse(w, http.StatusUnauthorized, "open the link that penstock ui has printed last: each link can be opened once")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// enter opens the link: it sets the cookie, and sends the browser to the first page.
func (l *Link) enter(w http.ResponseWriter, r *http.Request) {
	value := rand.Text()
	if !l.open(r.URL.Query().Get("key"), value) {
		refuse(w, http.StatusUnauthorized, "this link has been opened before, or is not complete: open the link that penstock ui has printed last")
		return
	}
	// Lax, so that links on pages of other sites work: links change nothing, and other requests from other sites have no cookie.
	http.SetCookie(w, &http.Cookie{Name: l.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the key
	http.Redirect(w, r, "/", http.StatusSeeOther)
	l.renewed(l.Renew())
}

// open begins a session with a value if the key is that of the link, which it uses up.
func (l *Link) open(key, value string) bool {
	sum := sha256.Sum256([]byte(key))
	l.mu.Lock()
	defer l.mu.Unlock()
	if subtle.ConstantTimeCompare(sum[:], l.key[:]) != 1 {
		return false
	}
	l.key, l.session, l.opened = sha256.Sum256([]byte(rand.Text())), sha256.Sum256([]byte(value)), true
	return true
}

// Session returns what identifies the session of a request that Require has passed on.
func (l *Link) Session(r *http.Request) string {
	sent, err := r.Cookie(l.cookie)
	if err != nil {
		return ""
	}
	return sent.Value
}

// admitted reports whether a request has the cookie of the session.
func (l *Link) admitted(r *http.Request) bool {
	sent, err := r.Cookie(l.cookie)
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(sent.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened && subtle.ConstantTimeCompare(sum[:], l.session[:]) == 1
}

// ByProxy returns a handler that passes on requests with a bearer token. Calls to servers carry the token of the request that causes
// them. The servers check it: the pages do not.
func ByProxy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" || len(r.Header.Values("Authorization")) > 1 {
			refuse(w, http.StatusUnauthorized, "the request has no bearer token: open the address of the proxy that signs viewers in, and let it pass on their token as Authorization: Bearer")
			return
		}
		next.ServeHTTP(w, r.WithContext(client.WithToken(r.Context(), token)))
	})
}

// TokenOf returns the header with the bearer token of a request, which identifies its viewer behind a proxy.
func TokenOf(r *http.Request) string { return r.Header.Get("Authorization") }

// refuse answers with a reason as plain text.
func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, reason, status)
}
