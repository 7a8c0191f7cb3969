package ui

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/statistics/htmlpage"
	"github.com/penstock/penstock/third_party/uplot"
)

//go:embed templates
var markup embed.FS

//go:embed assets/page.css
var style []byte

//go:embed assets/page.js
var script []byte

//go:embed assets/icon.svg
var icon []byte

// templates are the templates of pages by name. Each has a layout.
type templates map[string]*template.Template

func parseTemplates() (templates, error) {
	out, lists := templates{}, map[string]string{"datasets": "list", "tables": "list"}
	shared := template.New("").Funcs(template.FuncMap{"text": text, "lines": lines, "code": code, "size": fault.Size, "count": svg.Count})
	for _, name := range []string{
		"streams", "memory", "datasets", "dataset", "tables", "table", "backfills", "backfill", "verify", "new",
		"statistics", "publish", "undo", "moved", "promotion", "demote", "stage", "failed", "failure",
	} {
		one, err := shared.Clone()
		if err == nil {
			one, err = one.ParseFS(markup, "templates/layout.html", "templates/steps.html", "templates/covered.html", "templates/"+cmp.Or(lists[name], name)+".html", "templates/acts.html")
		}
		if err != nil {
			return nil, fault.New(fault.Internal, "parse the template of page %s: %w", name, err)
		}
		out[name] = one
	}
	return out, nil
}

// maxText is the maximum number of characters of a name or message on a page.
const maxText = 500

// maxLine is the maximum number of characters of a line of a plan.
const maxLine = 2000

// text returns a text without characters that do not print.
func text(value string) string { return svg.Printable(value, maxText) }

// lines returns a text of several lines. Its other characters that do not print are replaced.
func lines(value string) string {
	var b strings.Builder
	for line := range strings.Lines(value) {
		b.WriteString(svg.Printable(strings.TrimSuffix(line, "\n"), maxLine) + "\n")
	}
	return b.String()
}

// code returns a text to copy, of any length. Its characters that do not print are replaced: they must not be copied unseen.
func code(value string) string {
	var b strings.Builder
	for line := range strings.Lines(value) {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString(svg.Printable(text, len(text)))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// shown is what the layout shows.
type shown struct {
	Title   string
	Section string // the page's entry in the navigation
	Every   int    // milliseconds after which the page is loaded again; 0: it is not
	Version string
	Body    any
}

// refresh is after how many milliseconds pages with live values are loaded again.
const refresh = 2000

// view returns what a page shows.
type view func(ctx context.Context, r *http.Request) (shown, error)

// page returns the handler of a page. With the parameter part, it returns only the part that changes.
func (p *pages) page(name string, of view) http.HandlerFunc { return p.pageWithin(callTime, name, of) }

// pageWithin is page with another bound of the time of its calls.
func (p *pages) pageWithin(most time.Duration, name string, of view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if most > callTime {
			allow(w, most)
		}
		ctx, cancel := context.WithTimeout(r.Context(), most)
		defer cancel()
		what, err := of(ctx, r)
		if err != nil {
			p.fail(w, r, name, err)
			return
		}
		p.write(w, r, name, http.StatusOK, what)
	}
}

// fail answers with why a page cannot be shown.
func (p *pages) fail(w http.ResponseWriter, r *http.Request, page string, err error) {
	e := failureOf(err)
	p.write(w, r, "failure", e.status, shown{Title: "Error", Section: sectionOf(page), Body: e})
}

// write answers with a template.
func (p *pages) write(w http.ResponseWriter, r *http.Request, template string, status int, what shown) {
	what.Version = p.Version
	begin := "page"
	if r.URL.Query().Has("part") {
		begin = "main"
	}
	var b bytes.Buffer
	if err := p.templates[template].ExecuteTemplate(&b, begin, what); err != nil {
		http.Error(w, fault.Redact(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser may be gone
}

// sectionOf returns the entry in the navigation for a page.
func sectionOf(page string) string {
	switch page {
	case "dataset", "promotion", "stop":
		return "datasets"
	case "table", "publish", "undo", "moved", "demote":
		return "tables"
	case "backfill", "new", "stage", "stop-stage":
		return "backfills"
	}
	return page
}

// failure is why a page cannot be shown.
type failure struct {
	status          int
	Message, Remedy string
}

func failureOf(err error) failure {
	if errors.Is(err, context.DeadlineExceeded) {
		return failure{http.StatusGatewayTimeout, "the server does not answer in time", "look at the server's log and metrics, and load the page again"}
	}
	e := fault.As(err)
	out := failure{http.StatusBadGateway, messageOf(err), fault.Redact(e.Remedy)}
	switch e.Kind { //nolint:exhaustive // the others are failures of the server
	case fault.NotFound:
		out.status = http.StatusNotFound
	case fault.Forbidden:
		out.status = http.StatusForbidden
	case fault.Unauthenticated:
		out.status = http.StatusUnauthorized
	case fault.Invalid:
		out.status = http.StatusBadRequest
	case fault.Conflict:
		out.status = http.StatusConflict
	}
	return out
}

// messageOf returns the message of an error without its remedy.
func messageOf(err error) string {
	e := fault.As(err)
	if e.Op == "" {
		return fault.Redact(e.Message)
	}
	return fault.Redact(e.Op + ": " + e.Message)
}

// asset is a file that pages load.
type asset struct {
	kind, tag string
	content   []byte
}

func newAsset(kind string, content []byte) asset {
	sum := sha256.Sum256(content)
	return asset{kind, strconv.Quote(hex.EncodeToString(sum[:])), content}
}

func assets() map[string]asset {
	const css, js = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
	return map[string]asset{
		"icon.svg":  newAsset("image/svg+xml", icon),
		"page.css":  newAsset(css, append([]byte(htmlpage.Style()), style...)),
		"page.js":   newAsset(js, script),
		"uplot.css": newAsset(css, uplot.Style),
		"uplot.js":  newAsset(js, uplot.Script),
	}
}

// serve sends the file. Browsers ask each time whether it has changed.
func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", a.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}
