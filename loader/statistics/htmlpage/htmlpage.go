// Package htmlpage writes the statistics of a table or dataset as an HTML page.
//
// The page is one file. It needs no network and has no scripts, and its content security policy forbids both. Names and values come
// from tables, and may be hostile: html/template escapes them, after characters that do not print have been replaced; charts
// are drawn by package svg, which does the same. The same result always gives the same bytes.
package htmlpage

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the template and the style
	"encoding/base64"
	"html/template"
	"io"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

//go:embed page.html
var markup string

//go:embed page.css
var style string

// Style is the CSS of Table and Dataset, and of the charts in them. Its selectors are below the class stats, except those of the page's colors.
func Style() string { return style + svg.Style }

// Write writes a page that describes a table. Errors: those of the writer.
func Write(w io.Writer, r *statistics.Result) error { return write(w, newView(tableSubject(r))) }

// WriteDataset writes a page that describes a dataset and its staging entries. Errors: those of the writer.
func WriteDataset(w io.Writer, r *entries.Result) error {
	v := newView(datasetSubject(r))
	v.Entries = newJoined(r)
	return write(w, v)
}

// Table returns what a page says about a table, without its heading, for a page that has Style.
func Table(r *statistics.Result) (template.HTML, error) { return content(newView(tableSubject(r))) }

// Dataset returns what a page says about a dataset, as Table does.
func Dataset(r *entries.Result) (template.HTML, error) {
	v := newView(datasetSubject(r))
	v.Entries = newJoined(r)
	return content(v)
}

func content(v *view) (template.HTML, error) {
	t, err := parse()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, "content", v); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil //nolint:gosec // the template escapes all texts
}

func parse() (*template.Template, error) {
	t, err := template.New("").Parse(markup)
	if err != nil {
		return nil, fault.New(fault.Internal, "parse the template of pages: %w", err)
	}
	return t, nil
}

func write(w io.Writer, v *view) error {
	t, err := parse()
	if err != nil {
		return err
	}
	css := Style()
	sum := sha256.Sum256([]byte(css))
	v.Style = template.CSS(css) //nolint:gosec // constants
	v.Policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	buffered := bufio.NewWriter(w)
	if err := t.ExecuteTemplate(buffered, "page", v); err != nil {
		return err
	}
	return buffered.Flush()
}
