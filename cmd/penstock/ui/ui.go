package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// callTime bounds the calls to servers that one page needs.
const callTime = 10 * time.Second

// Watched is what pages show of a running server.
type Watched interface {
	Status(ctx context.Context) (flight.ServerStatus, json.RawMessage, error)
	CacheList(ctx context.Context) (flight.CacheList, error)
}

// Read is what pages show of datasets and tables. All replicas of a server have the same ones.
type Read interface {
	Datasets(ctx context.Context) ([]client.Dataset, error)
	Explain(ctx context.Context, query []byte, splits bool) (string, error)
	Shape(ctx context.Context, query []byte) (flight.PlanShape, error)
	Tables(ctx context.Context, within string) ([]history.Description, error)
	Log(ctx context.Context, request decode.LogCommand) (history.Log, error)
}

// Replica is one of several servers with the same config file.
type Replica struct {
	Name    string // its URI, or the path of its config file
	Watched Watched
}

// Options are the servers that pages show.
type Options struct {
	Replicas []Replica
	Resolved []*Resolved // more replicas, by the names of hosts
	Read     Read
	Measure  Measure
	Count    Count
	Propose  Propose
	Change   Change // nil: nothing can be changed
	// Promotions runs promotions; nil: pages show how to run them elsewhere.
	Promotions Promotions
	Stages     Stages // nil: pages stage nothing
	Version    string // of this program
	// Session returns what identifies the session of the viewer of a request, such as a cookie. Forms of other sessions are refused.
	Session func(*http.Request) string
	Host    string // the host name of the proxy that serves the pages to others; "": there is none
	Source  string // the flags that name the first server or the config file in a command line, after a space
}

// pages answers the requests of viewers who have entered.
type pages struct {
	Options
	templates templates
	measuring measuring
	forms     *forms
}

// New returns the handler of all pages, which all viewers may see: wrap it with a Link or with ByProxy.
func New(options Options) (http.Handler, error) {
	parsed, err := parseTemplates()
	if err != nil {
		return nil, err
	}
	p := &pages{Options: options, templates: parsed, forms: newForms(options.Session, options.Host)}
	mux := http.NewServeMux()
	for name, one := range assets() {
		mux.HandleFunc("GET /assets/"+name, one.serve)
	}
	mux.HandleFunc("GET /{$}", p.page("streams", p.streams))
	mux.HandleFunc("GET /memory", p.page("memory", p.memory))
	mux.HandleFunc("GET /datasets", p.page("datasets", p.datasets))
	mux.HandleFunc("GET /datasets/{name}", p.page("dataset", p.dataset))
	mux.HandleFunc("GET /datasets/{name}/statistics", p.statistics("dataset"))
	mux.HandleFunc("GET /tables", p.page("tables", p.tables))
	mux.HandleFunc("GET /tables/{name}", p.page("table", p.table))
	mux.HandleFunc("GET /tables/{name}/statistics", p.statistics("table"))
	mux.HandleFunc("GET /backfills", p.page("backfills", p.backfills))
	mux.HandleFunc("GET /backfills/new", p.page("new", p.newBackfill))
	mux.HandleFunc("GET /backfills/{name}", p.page("backfill", p.backfill))
	mux.HandleFunc("GET /backfills/{name}/verify", p.verifyBackfill)
	if p.Change != nil {
		p.changes(mux)
	}
	return headers(p.known(mux)), nil
}

// changes adds the pages that change tables.
func (p *pages) changes(mux *http.ServeMux) {
	mux.HandleFunc("GET /publish/{name}", p.page("publish", p.publishing))
	mux.HandleFunc("POST /publish/{name}", p.form("publish", p.publish))
	mux.HandleFunc("GET /undo/{name}", p.page("undo", p.undoing))
	mux.HandleFunc("POST /undo/{name}", p.form("undo", p.undo))
	mux.HandleFunc("GET /moved/{name}", p.page("moved", p.moved))
	mux.HandleFunc("GET /promotions/{name}", p.pageWithin(dryRunTime, "promotion", p.promoting))
	if p.Promotions != nil {
		mux.HandleFunc("POST /promotions/{name}", p.form("promotion", p.promote))
		mux.HandleFunc("POST /promotions/{name}/stop", p.form("stop", p.stopPromotion))
	}
	if p.Stages != nil {
		mux.HandleFunc("GET /stage/{name}", p.page("stage", p.staging))
		mux.HandleFunc("POST /stage/{name}", p.form("stage", p.stage))
		mux.HandleFunc("POST /stage/{name}/stop", p.form("stop-stage", p.stopStage))
	}
	mux.HandleFunc("GET /demote/{name}", p.page("demote", p.demoting))
	mux.HandleFunc("POST /demote/{name}", p.form("demote", p.demote))
}

// known returns a handler that answers with a page if no method has one at the address of a request.
func (p *pages) known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{r.Method, http.MethodGet, http.MethodPost} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "" {
				mux.ServeHTTP(w, r)
				return
			}
		}
		p.fail(w, r, "failure", fault.New(fault.NotFound, "there is no page at this address").WithRemedy("choose one above"))
	})
}

// policy allows the scripts, styles and requests of these pages alone.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers adds the headers of all answers.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !strings.HasPrefix(r.URL.Path, "/assets/") {
			h.Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, r)
	})
}
