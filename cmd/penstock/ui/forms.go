package ui

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/flight/progress"
)

// Change makes changes with the rights of the viewer whose request causes the call.
type Change interface {
	WouldPublish(ctx context.Context, move client.Move) (client.Move, error)
	Publish(ctx context.Context, move client.Move) (client.Move, error)
	LastChange(ctx context.Context, table, branch string) (client.Move, error)
	Undo(ctx context.Context, made client.Move) (client.Move, error)
	Change(ctx context.Context, action string, body, out any, report func(progress.Message)) error
}

// changeTime bounds a change: publish may read all rows of a branch to check limits.
const changeTime = 11 * time.Minute

// maxForm is the maximum number of bytes of a form.
const maxForm = 16 << 10

// tokenField is the field of a form that has its token.
const tokenField = "form"

// forms admits the requests that change something: those that a form of these pages sends. It is safe for concurrent use.
//
// A request is admitted if the browser says that a page of this address has sent it, in two headers that scripts cannot set, and if it has
// the token of the form, which other sites cannot read. A token is bound to the viewer's session and to what the form is for.
type forms struct {
	key     []byte
	session func(*http.Request) string
	host    string // of the proxy that serves the pages; "": there is none
}

func newForms(session func(*http.Request) string, host string) *forms {
	f := &forms{key: make([]byte, sha256.Size), session: session, host: host}
	_, _ = rand.Read(f.key) // it never fails
	return f
}

// token returns the token of a form that makes a change of something, for the viewer of a request.
func (f *forms) token(r *http.Request, change, of string) string {
	mac := hmac.New(sha256.New, f.key)
	mac.Write([]byte(f.session(r) + "\x00" + change + "\x00" + of))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// refusal is why a form is not accepted.
type refusal struct {
	status int
	reason string
}

// read returns the fields of a form that may make a change of something.
func (f *forms) read(w http.ResponseWriter, r *http.Request, change, of string) (url.Values, *refusal) {
	if !f.ours(r) {
		return nil, &refusal{http.StatusForbidden, "changes are made by the forms of these pages alone: the request is not from one of them, or the browser does not say where it is from (Origin and Sec-Fetch-Site)"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, &refusal{http.StatusUnsupportedMediaType, "the request is not a form"}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			return nil, &refusal{http.StatusRequestEntityTooLarge, "the form is too large"}
		}
		return nil, &refusal{http.StatusBadRequest, "the form cannot be read"}
	}
	sent := r.PostForm[tokenField]
	if len(sent) != 1 || !hmac.Equal([]byte(sent[0]), []byte(f.token(r, change, of))) {
		return nil, &refusal{http.StatusForbidden, "the page is of an earlier session: nothing was changed; go back, load the page again, and look at what it shows before you confirm"}
	}
	for _, values := range r.PostForm {
		if strings.Contains(strings.Join(values, ""), "\x00") {
			return nil, &refusal{http.StatusBadRequest, "a field has a character that no name, path or statement has"}
		}
	}
	return r.PostForm, nil
}

// ours reports whether the browser says that a page of this address has sent a request.
func (f *forms) ours(r *http.Request) bool {
	origin, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	if len(origin) != 1 || len(site) != 1 || site[0] != "same-origin" {
		return false
	}
	if f.host == "" {
		return r.Host != "" && origin[0] == "http://"+r.Host
	}
	// The proxy may serve another port than this program, and pass on another Host.
	from, err := url.Parse(origin[0])
	return err == nil && from.Scheme == "https" && strings.EqualFold(from.Hostname(), f.host) && origin[0] == "https://"+from.Host
}

// change makes a change that a form describes, and returns the address of the page that shows the result. That page is read from the
// server, so that loading it again repeats nothing.
type change func(ctx context.Context, name string, form url.Values) (next string, err error)

// form returns the handler of a form. Its name is that of the page that has the form.
func (p *pages) form(name string, make change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fields, refused := p.forms.read(w, r, name, r.PathValue("name"))
		if refused != nil {
			refuse(w, refused.status, refused.reason)
			return
		}
		allow(w, changeTime)
		ctx, cancel := context.WithTimeout(r.Context(), changeTime)
		defer cancel()
		next, err := make(ctx, r.PathValue("name"), fields)
		if err != nil {
			e := failureOf(err)
			body := failedChange{e, e.status >= http.StatusInternalServerError}
			p.write(w, r, "failed", e.status, shown{Title: "Error", Section: sectionOf(name), Body: body})
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// failedChange is why a change has failed. It is uncertain whether it was made if the server or the connection has failed.
type failedChange struct {
	failure
	Uncertain bool
}

// allow lets the answer to a request take longer than the server lets other answers take.
func allow(w http.ResponseWriter, most time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(most + answerTime)) // a writer of a test has no deadlines
}

// answerTime is how long a browser may take to receive the answer to a long request.
const answerTime = 10 * time.Second
