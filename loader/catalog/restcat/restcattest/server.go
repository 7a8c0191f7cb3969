// Package restcattest is an Iceberg REST catalog for tests. It was written from the specification,
// not from Penstock's client. It serves tables that a function looks up, requires tokens if
// configured, vends credentials for each table, and returns errors if a test asks for that.
package restcattest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Table is a table of the server.
type Table struct {
	Location string
	Metadata []byte
	Config   map[string]string
	// Credentials are credentials for the files below prefixes.
	Credentials []Credential
}

// Credential is a credential for the files below a prefix.
type Credential struct {
	Prefix string            `json:"prefix"`
	Config map[string]string `json:"config"`
}

// Tables looks up a table by its namespace and name. It returns false if there is no such table.
type Tables func(namespace []string, name string) (Table, bool)

// Server is a REST catalog on loopback that runs until its test ends. A test sets the fields before
// the first request, or with Change.
type Server struct {
	URL    string
	Tables Tables
	Names  []string // of all tables, with dots
	// Prefix is the prefix that the server sends to clients. Warehouse is the warehouse that
	// clients must send.
	Prefix, Warehouse   string
	Defaults, Overrides map[string]string
	// Token is a token that the server always accepts. With Client and Secret, a client gets
	// further tokens, which are valid for Lifetime.
	Token, Client, Secret string
	Lifetime              time.Duration
	Scope                 string
	// Commit is called with the body of each request that changes a table. It returns false if the
	// change conflicts with the table's state. If Commit is nil, the server only serves GET
	// requests.
	Commit func(namespace []string, name string, wanted []byte) (bool, error)
	// Create is called with the body of each request for a new table. It returns the table's name,
	// or false if the table exists. If Create is nil, the server refuses such requests.
	Create func(namespace []string, wanted []byte) (string, bool, error)
	// Drop removes a table, and reports whether it existed. nil: tables cannot be dropped.
	Drop func(namespace []string, name string) (bool, error)
	// Page is the maximum number of names in one response if the request supports pages; 0 is no
	// limit.
	Page int
	// Fault is called before each request is served. It returns true if it has already responded to
	// the request.
	Fault func(w http.ResponseWriter, r *http.Request) bool

	mu     sync.Mutex
	asked  []string
	tokens map[string]time.Time // when each issued token expires
	given  int
	http   *httptest.Server
}

// Start starts a server.
func Start(t testing.TB) *Server {
	s := &Server{Lifetime: time.Hour, tokens: map[string]time.Time{}}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	s.URL = s.http.URL
	return s
}

// Change changes fields of a server that may be serving requests.
func (s *Server) Change(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Asked returns the requests since its last call: the method and the escaped path of each.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	return out
}

// Revoke makes all tokens that the server issued invalid.
func (s *Server) Revoke() { s.Change(func(s *Server) { clear(s.tokens) }) }

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.EscapedPath())
	if s.Fault != nil && s.Fault(w, r) {
		return
	}
	if r.URL.Path == "/v1/oauth/tokens" {
		s.give(w, r)
		return
	}
	if !s.knows(r) {
		refuse(w, http.StatusUnauthorized, "NotAuthorizedException", "Not authorized")
		return
	}
	if drops := r.Method == http.MethodDelete && s.Drop != nil; r.Method != http.MethodGet && !drops && (r.Method != http.MethodPost || s.Commit == nil) {
		refuse(w, http.StatusMethodNotAllowed, "BadRequestException", "only reads")
		return
	}
	if r.URL.Path == "/v1/config" {
		s.config(w, r)
		return
	}
	s.resource(w, r)
}

// knows reports whether a request has a valid token.
func (s *Server) knows(r *http.Request) bool {
	if s.Token == "" && s.Client == "" {
		return true
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	ends, given := s.tokens[token]
	return bearer && (token != "" && token == s.Token || given && time.Now().Before(ends))
}

// give issues a token for a client's credentials (RFC 6749, section 4.4).
func (s *Server) give(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ParseForm() != nil || r.PostForm.Get("grant_type") != "client_credentials" {
		answer(w, http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
		return
	}
	if r.PostForm.Get("client_id") != s.Client || r.PostForm.Get("client_secret") != s.Secret || r.PostForm.Get("scope") != cmp.Or(s.Scope, "catalog") {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client", "error_description": "unknown client"})
		return
	}
	s.given++
	token := fmt.Sprintf("given-%d", s.given)
	s.tokens[token] = time.Now().Add(s.Lifetime)
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer", "expires_in": s.Lifetime.Seconds()})
}

func (s *Server) config(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("warehouse") != s.Warehouse {
		refuse(w, http.StatusNotFound, "NoSuchWarehouseException", "there is no such warehouse")
		return
	}
	overrides := maps.Clone(s.Overrides)
	if overrides == nil {
		overrides = map[string]string{}
	}
	if s.Prefix != "" {
		overrides["prefix"] = s.Prefix
	}
	defaults := s.Defaults
	if defaults == nil {
		defaults = map[string]string{}
	}
	answer(w, http.StatusOK, map[string]any{"defaults": defaults, "overrides": overrides})
}

// resource serves the requests for the tables of a namespace, and for one table.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/v1/")
	if s.Prefix != "" {
		rest, ok := strings.CutPrefix(path, s.Prefix+"/")
		if !ok {
			refuse(w, http.StatusNotFound, "NoSuchPrefixException", "no such prefix")
			return
		}
		path = rest
	}
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			refuse(w, http.StatusBadRequest, "BadRequestException", "bad path")
			return
		}
		parts = append(parts, plain)
	}
	if len(parts) == 1 && parts[0] == "namespaces" {
		s.namespaces(w, r)
		return
	}
	if len(parts) < 3 || parts[0] != "namespaces" || parts[2] != "tables" {
		refuse(w, http.StatusNotFound, "NotFoundException", "no such resource")
		return
	}
	namespace := strings.Split(parts[1], "\x1f")
	if len(parts) == 3 && r.Method == http.MethodPost {
		s.create(w, r, namespace)
		return
	}
	if len(parts) == 3 {
		s.list(w, r, namespace)
		return
	}
	if r.Method == http.MethodDelete {
		s.drop(w, namespace, parts[3])
		return
	}
	if r.Method == http.MethodPost && !s.commit(w, r, namespace, parts[3]) {
		return
	}
	s.load(w, r, namespace, parts[3])
}

// namespaces lists the namespaces directly inside a namespace.
func (s *Server) namespaces(w http.ResponseWriter, r *http.Request) {
	var parent []string
	if inside := r.URL.Query().Get("parent"); inside != "" {
		parent = strings.Split(inside, "\x1f")
	}
	found := [][]string{}
	for _, name := range s.Names {
		parts := strings.Split(name, ".")
		depth := len(parent) + 1
		if len(parts) > depth && slices.Equal(parts[:len(parent)], parent) &&
			!slices.ContainsFunc(found, func(f []string) bool { return slices.Equal(f, parts[:depth]) }) {
			found = append(found, parts[:depth])
		}
	}
	part, next := page(s, r, found)
	answer(w, http.StatusOK, map[string]any{"namespaces": part, "next-page-token": next})
}

// page returns the part of a list that a request asks for, and the token of the next page.
func page[T any](s *Server, r *http.Request, all []T) (part []T, next any) {
	if s.Page == 0 || !r.URL.Query().Has("pageToken") {
		return all, nil
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("pageToken")) // 0 for the first page
	if to := from + s.Page; to < len(all) {
		return all[from:to], strconv.Itoa(to)
	}
	return all[from:], nil
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, namespace []string) {
	type identifier struct {
		Namespace []string `json:"namespace"`
		Name      string   `json:"name"`
	}
	var found []identifier
	for _, name := range s.Names {
		parts := strings.Split(name, ".")
		if last := len(parts) - 1; slices.Equal(parts[:last], namespace) {
			found = append(found, identifier{Namespace: namespace, Name: parts[last]})
		}
	}
	if found == nil {
		refuse(w, http.StatusNotFound, "NoSuchNamespaceException", "Namespace does not exist")
		return
	}
	part, next := page(s, r, found)
	answer(w, http.StatusOK, map[string]any{"identifiers": part, "next-page-token": next})
}

func (s *Server) load(w http.ResponseWriter, r *http.Request, namespace []string, name string) {
	t, ok := s.Tables(namespace, name)
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchTableException", "Table does not exist: "+name)
		return
	}
	out := map[string]any{"metadata-location": t.Location, "metadata": json.RawMessage(t.Metadata), "config": t.Config}
	if strings.Contains(r.Header.Get("X-Iceberg-Access-Delegation"), "vended-credentials") {
		out["storage-credentials"] = t.Credentials
	}
	answer(w, http.StatusOK, out)
}

// commit changes a table. It returns false if it has already responded with an error.
func (s *Server) commit(w http.ResponseWriter, r *http.Request, namespace []string, name string) bool {
	if _, ok := s.Tables(namespace, name); !ok {
		return true // load responds that there is no such table
	}
	wanted, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/json" {
		refuse(w, http.StatusBadRequest, "BadRequestException", "bad request")
		return false
	}
	done, err := s.Commit(namespace, name, wanted)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "BadRequestException", err.Error())
	case !done:
		refuse(w, http.StatusConflict, "CommitFailedException", "Requirement failed")
	}
	return done && err == nil
}

// drop removes a table.
func (s *Server) drop(w http.ResponseWriter, namespace []string, name string) {
	switch done, err := s.Drop(namespace, name); {
	case err != nil:
		refuse(w, http.StatusBadRequest, "BadRequestException", err.Error())
	case !done:
		refuse(w, http.StatusNotFound, "NoSuchTableException", "Table does not exist: "+name)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// create creates a table.
func (s *Server) create(w http.ResponseWriter, r *http.Request, namespace []string) {
	wanted, err := io.ReadAll(r.Body)
	if err != nil || s.Create == nil || r.Header.Get("Content-Type") != "application/json" {
		refuse(w, http.StatusBadRequest, "BadRequestException", "bad request")
		return
	}
	name, done, err := s.Create(namespace, wanted)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "BadRequestException", err.Error())
	case !done:
		refuse(w, http.StatusConflict, "AlreadyExistsException", "Table already exists")
	default:
		s.load(w, r, namespace, name)
	}
}

func refuse(w http.ResponseWriter, status int, kind, text string) {
	answer(w, status, map[string]any{"error": map[string]any{"message": text, "type": kind, "code": status}})
}

func answer(w http.ResponseWriter, status int, value any) {
	content, err := json.Marshal(value)
	if err != nil {
		status, content = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	_, _ = w.Write(content)
}
