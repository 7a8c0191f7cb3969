package ui_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
)

// changingLake is a lake in which main of features.a can be moved to its branch ready.
type changingLake struct {
	*lake
	made    []client.Move // publications and undos
	refused error         // of every call that changes or may change
}

func newChangingLake() *changingLake {
	out := &changingLake{lake: features()}
	out.logs["features.new@ready"] = out.logs["features.new@first"]
	out.logs["features.new@main"] = []history.Entry{staged(1, "")}
	return out
}

// at returns the snapshots at which main and the branch are.
func (l *changingLake) at(table, branch string) client.Move {
	return client.Move{Table: table, Branch: branch, From: l.logs[table+"@main"][0].Snapshot, To: l.logs[table+"@"+branch][0].Snapshot}
}

func (l *changingLake) WouldPublish(ctx context.Context, move client.Move) (client.Move, error) {
	if l.refused != nil {
		return client.Move{}, l.refused
	}
	out := l.at(move.Table, move.Branch)
	out.Limits = []changes.CheckedLimits{{Dataset: "homefeed", Entry: hostile, Checked: drift.Checked{Columns: []string{"price"}}}}
	return out, l.called(ctx)
}

func (l *changingLake) Publish(ctx context.Context, move client.Move) (client.Move, error) {
	now := l.at(move.Table, move.Branch)
	switch {
	case l.refused != nil:
		return client.Move{}, l.refused
	case now.From == move.To:
		return move, l.called(ctx)
	case now.From != move.From || now.To != move.To:
		return client.Move{}, fault.New(fault.Conflict, "main or the branch has moved").WithRemedy("look again")
	}
	l.logs[move.Table+"@main"] = l.logs[move.Table+"@"+move.Branch]
	l.made = append(l.made, move)
	return move, l.called(ctx)
}

func (l *changingLake) LastChange(ctx context.Context, table, branch string) (client.Move, error) {
	if l.refused != nil {
		return client.Move{}, l.refused
	}
	entries := l.logs[table+"@"+branch]
	if branch == "" {
		entries = l.logs[table+"@main"]
	}
	out := client.Move{Table: table, Branch: branch, From: entries[0].Snapshot, Undone: entries[:1]}
	if len(entries) > 1 {
		out.To = entries[1].Snapshot
	} else {
		out.Dropped = branch == ""
	}
	return out, l.called(ctx)
}

func (l *changingLake) Undo(ctx context.Context, made client.Move) (client.Move, error) {
	if l.refused != nil {
		return client.Move{}, l.refused
	}
	name := made.Table + "@" + made.Branch
	if made.Branch == "" {
		name += "main"
	}
	entries := l.logs[name]
	if entries[0].Snapshot == made.From {
		return made, l.called(ctx)
	}
	if entries[0].Snapshot != made.To {
		return client.Move{}, fault.New(fault.Conflict, "others have committed since")
	}
	l.logs[name] = entries[1:]
	l.made = append(l.made, made)
	return made, l.called(ctx)
}

func (l *changingLake) Change(ctx context.Context, action string, _, _ any, _ func(progress.Message)) error {
	return fault.New(fault.Internal, "no %s: %w", action, l.called(ctx))
}

// changingPages returns the pages of a lake that may be changed, for browsers with a session, which is the value of the header Session.
func changingPages(t *testing.T, of *changingLake, host string) http.Handler {
	t.Helper()
	pages, err := ui.New(ui.Options{
		Read: of, Count: of, Change: of, Version: "v", Host: host, Source: " --uri grpc://a:1",
		Session: func(r *http.Request) string { return r.Header.Get("Session") },
	})
	require.NoError(t, err)
	return pages
}

// formOf returns the fields of the form of a page, and the path to which it is sent.
func formOf(t *testing.T, page string) (action string, fields url.Values) {
	t.Helper()
	found := regexp.MustCompile(`<form method="post" action="([^"]*)">`).FindStringSubmatch(page)
	require.NotNil(t, found, page)
	fields = url.Values{}
	for _, one := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		fields.Add(one[1], one[2])
	}
	return found[1], fields
}

// send sends a form as a browser does, after a function has changed the request.
func send(to http.Handler, action string, fields url.Values, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodPost, action, strings.NewReader(fields.Encode()))
	r.Host = "127.0.0.1:8880"
	r.Header.Set("Origin", "http://127.0.0.1:8880")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Session", "one")
	change(r)
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w.Result()
}

func asItIs(*http.Request) {}

// Only forms of the pages change something: each other request is refused, and nothing is called.
//
// spec: ui-20
func TestOnlyFormsOfThePagesChange(t *testing.T) {
	of := newChangingLake()
	pages := changingPages(t, of, "")
	_, page := get(t, pages, "/publish/features.a?branch=ready", "Session", "one")
	action, fields := formOf(t, page)
	_, other := get(t, pages, "/publish/features.new?branch=ready", "Session", "one")
	_, undo := get(t, pages, "/undo/features.a", "Session", "one")
	_, otherFields := formOf(t, other)
	_, undoFields := formOf(t, undo)
	of.calls = nil
	with := func(name, value string) url.Values {
		out := maps.Clone(fields)
		out.Set(name, value)
		return out
	}
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	for name, c := range map[string]struct {
		fields url.Values
		change func(*http.Request)
		status int
	}{
		"no origin":              {fields, header("Origin"), http.StatusForbidden},
		"the origin null":        {fields, header("Origin", "null"), http.StatusForbidden},
		"another origin":         {fields, header("Origin", "http://127.0.0.1:8881"), http.StatusForbidden},
		"another scheme":         {fields, header("Origin", "https://127.0.0.1:8880"), http.StatusForbidden},
		"two origins":            {fields, header("Origin", "http://127.0.0.1:8880", "http://evil.example"), http.StatusForbidden},
		"another site":           {fields, header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another port":           {fields, header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"an address bar":         {fields, header("Sec-Fetch-Site", "none"), http.StatusForbidden},
		"no site":                {fields, header("Sec-Fetch-Site"), http.StatusForbidden},
		"another host":           {fields, func(r *http.Request) { r.Host = "127.0.0.1:8881" }, http.StatusForbidden},
		"no token":               {with("form", ""), asItIs, http.StatusForbidden},
		"a wrong token":          {with("form", wrongToken(fields.Get("form"))), asItIs, http.StatusForbidden},
		"two tokens":             {url.Values{"form": {fields.Get("form"), fields.Get("form")}}, asItIs, http.StatusForbidden},
		"another table's token":  {with("form", otherFields.Get("form")), asItIs, http.StatusForbidden},
		"another form's token":   {with("form", undoFields.Get("form")), asItIs, http.StatusForbidden},
		"another session":        {fields, header("Session", "two"), http.StatusForbidden},
		"JSON":                   {fields, header("Content-Type", "application/json"), http.StatusUnsupportedMediaType},
		"plain text":             {fields, header("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		"parts":                  {fields, header("Content-Type", "multipart/form-data; boundary=x"), http.StatusUnsupportedMediaType},
		"a large body":           {with("more", strings.Repeat("x", 20_000)), asItIs, http.StatusRequestEntityTooLarge},
		"a token in the address": {with("form", ""), func(r *http.Request) { r.URL.RawQuery = "form=" + fields.Get("form") }, http.StatusForbidden},
		"GET": {fields, func(r *http.Request) {
			r.Method = http.MethodGet
			r.Body = http.NoBody
			r.URL.RawQuery = fields.Encode()
		}, http.StatusOK},
		"PUT": {fields, func(r *http.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed},
	} {
		answer := send(pages, action, c.fields, c.change)
		require.Equal(t, c.status, answer.StatusCode, name)
		require.Empty(t, of.made, name)
		if answer.StatusCode != http.StatusOK {
			require.Empty(t, of.calls, name)
		}
		of.calls = nil
	}
	require.Equal(t, http.StatusForbidden, send(changingPages(t, of, ""), action, fields, asItIs).StatusCode, "the program was started again")
	require.Equal(t, http.StatusSeeOther, send(pages, action, fields, asItIs).StatusCode)
	require.Len(t, of.made, 1)
}

// wrongToken returns another token than one.
func wrongToken(of string) string {
	if of[0] == 'A' {
		return "B" + of[1:]
	}
	return "A" + of[1:]
}

// Behind a proxy, the origin is that of the proxy, with TLS, whatever Host the proxy passes on.
//
// spec: ui-20
func TestFormsBehindAProxy(t *testing.T) {
	of := newChangingLake()
	pages := changingPages(t, of, "penstock.example.com")
	_, page := get(t, pages, "/publish/features.a?branch=ready", "Session", "one")
	action, fields := formOf(t, page)
	for origin, want := range map[string]int{
		"http://penstock.example.com": http.StatusForbidden, "https://penstock.example.com.evil": http.StatusForbidden, "https://evil.example": http.StatusForbidden,
		"https://user@penstock.example.com": http.StatusForbidden, "https://penstock.example.com/": http.StatusForbidden, "http://127.0.0.1:8880": http.StatusForbidden, "null": http.StatusForbidden,
		"https://penstock.example.com": http.StatusSeeOther, "https://penstock.example.com:8443": http.StatusSeeOther,
	} {
		answer := send(pages, action, fields, func(r *http.Request) { r.Header.Set("Origin", origin) })
		require.Equal(t, want, answer.StatusCode, origin)
	}
}

// A publication is that of the snapshots that the page showed, once, however often it is sent.
//
// spec: ui-21, ui-22
func TestPublishWhatThePageShowed(t *testing.T) {
	of := newChangingLake()
	pages := changingPages(t, of, "")
	_, page := get(t, pages, "/publish/features.a?branch=ready", "Session", "one")
	for _, text := range []string{
		"<dt>main moves from</dt><dd>2</dd>", "<dd>4</dd>", "token-4", "token-3", "homefeed", "<bdi>price</bdi>",
		"penstock publish features.a ready --from 2 --to 4 --uri grpc://a:1", "penstock undo features.a --from 2 --to 4 --uri grpc://a:1",
	} {
		require.Contains(t, page, text)
	}
	require.NotContains(t, page, "token-2", "main has it")
	require.NotContains(t, page, "<script>")
	action, fields := formOf(t, page)
	var next string
	for range 3 { // a double click, and the back button
		answer := send(pages, action, fields, asItIs)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		next = answer.Header.Get("Location")
	}
	require.Equal(t, []client.Move{{Table: "features.a", Branch: "ready", From: 2, To: 4}}, of.made)
	_, result := get(t, pages, next)
	require.Contains(t, result, "is at snapshot 4.")
	require.Contains(t, result, "/undo/features.a")
	_, again := get(t, pages, "/publish/features.a?branch=ready")
	require.Contains(t, again, "nothing to publish")
	require.NotContains(t, again, "<button")

	of.logs["features.a@ready"] = append(of.logs["features.a@ready"][:0:0], staged(8, "token-8"), of.logs["features.a@ready"][0])
	_, page = get(t, pages, "/publish/features.a?branch=ready", "Session", "one")
	action, fields = formOf(t, page)
	of.logs["features.a@ready"] = append(of.logs["features.a@ready"][:0:0], staged(9, "token-9"), of.logs["features.a@ready"][0])
	answer := send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "look again")
	require.Contains(t, string(body), "Nothing was changed")
	require.Len(t, of.made, 1)
	of.refused = fault.New(fault.Unavailable, "the connection was lost")
	answer = send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusBadGateway, answer.StatusCode)
	body, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "The outcome of the change is uncertain")
	of.refused = nil
	_, result = get(t, pages, next+"&to=5")
	require.Contains(t, result, "is at snapshot 4.", "the first value counts")
	_, result = get(t, pages, "/moved/features.a?made=published&from=none&to=4")
	require.NotContains(t, result, "penstock undo", "main had no snapshot")
	for _, bad := range []string{"?from=1", "?from=1&to=x", "?from=-1&to=2", ""} {
		answer, _ := get(t, pages, "/moved/features.a"+bad)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, bad)
	}
	for _, bad := range []url.Values{{"from": {"1"}, "to": {"none"}}, {"from": {"1"}}, {"from": {""}, "to": {"2"}}} {
		bad.Set("form", fields.Get("form"))
		require.Equal(t, http.StatusBadRequest, send(pages, action, bad, asItIs).StatusCode)
	}
}

// The change that the page showed is taken back once, and the page says if the table is dropped.
//
// spec: ui-22, ui-23
func TestUndoWhatThePageShowed(t *testing.T) {
	of := newChangingLake()
	pages := changingPages(t, of, "")
	_, page := get(t, pages, "/undo/features.a", "Session", "one")
	require.Contains(t, page, "token-2")
	require.Contains(t, page, "penstock undo features.a --from 1 --to 2 --uri grpc://a:1\n")
	action, fields := formOf(t, page)
	for range 2 {
		answer := send(pages, action, fields, asItIs)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		_, result := get(t, pages, answer.Header.Get("Location"))
		require.Contains(t, result, "is at snapshot 1.")
		require.NotContains(t, result, "Take it back", "the change before is another one")
	}
	require.Equal(t, []client.Move{{Table: "features.a", From: 1, To: 2}}, of.made)
	_, page = get(t, pages, "/undo/features.b", "Session", "one")
	require.Contains(t, page, "taking it back drops the table")
	require.Contains(t, page, "--from none --to 1 --uri grpc://a:1 --yes")
	action, fields = formOf(t, page)
	require.Equal(t, "yes", fields.Get("drop"))
	of.logs["features.b@main"] = append(of.logs["features.b@main"], staged(0, ""))
	require.Equal(t, http.StatusSeeOther, send(pages, action, fields, asItIs).StatusCode)
	require.True(t, of.made[1].Drop)
	_, page = get(t, pages, "/undo/features.a?branch=ready", "Session", "one")
	require.Contains(t, page, "penstock undo features.a --branch ready --from 3 --to 4")
	_, fields = formOf(t, page)
	require.Equal(t, "ready", fields.Get("branch"))
}

// A viewer without the right sees the server's refusal and no button, and a form that is sent nevertheless is refused.
//
// spec: ui-24
func TestViewersWithoutTheRightToChange(t *testing.T) {
	of := newChangingLake()
	pages := changingPages(t, of, "")
	_, page := get(t, pages, "/publish/features.a?branch=ready", "Session", "one")
	action, fields := formOf(t, page)
	of.refused = fault.New(fault.Forbidden, "your policy has no right publish").WithRemedy("ask for a rule")
	for _, path := range []string{"/publish/features.a?branch=ready", "/undo/features.a"} {
		answer, body := get(t, pages, path, "Session", "one")
		require.Equal(t, http.StatusForbidden, answer.StatusCode)
		require.Contains(t, body, "ask for a rule")
		require.NotContains(t, body, "<form")
	}
	answer := send(pages, action, fields, asItIs)
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "your policy has no right publish")
	require.Empty(t, of.made)
	// Pages that change nothing have no links to such pages, and such pages do not exist.
	for _, path := range []string{"/publish/features.a?branch=ready", "/undo/features.a", "/moved/features.a"} {
		answer, _ := get(t, pagesOf(t, of), path)
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
	}
	_, body2 := get(t, pagesOf(t, of), "/tables/features.a")
	require.NotContains(t, body2, "/undo/")
	_, body2 = get(t, pages, "/tables/features.a?branch=ready")
	require.Contains(t, body2, `href="/publish/features.a?branch=ready"`)
	_, body2 = get(t, pages, "/backfills/features.a?branch=ready")
	require.Contains(t, body2, `href="/publish/features.a?branch=ready"`)
}
