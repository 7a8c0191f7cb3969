package restcat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
)

// call is one call of a server. It may take several requests.
type call struct {
	what    string // in errors: "load table ml.events"
	table   string // the table of the call, or ""
	request func(context.Context) (*http.Request, error)
	max     int64             // bytes of the response; 0 is unlimited
	grow    func(int64) error // charges bytes of the response; nil charges nothing
	// failed returns the error for a status other than 200. If failed is nil or returns nil,
	// refused makes the error.
	failed func(status int, message string) error
	// decode decodes a response with status 200. If the JSON of the response ends early, a proxy or the server has cut the response off,
	// and the request is sent again. The caller decodes other errors of JSON itself. nil: responses are taken as they are.
	decode func(content []byte) error
	// If once is true, the request is sent again only if the token was rejected.
	once bool
	// If plain is true, the requests have their own credentials, and get neither a token nor a
	// signature.
	plain bool
}

// Limits of the retries of requests to a server that is unavailable, and a status after which they
// are retried.
const (
	maxTries   = 6
	firstWait  = 100 * time.Millisecond
	maxWait    = 10 * time.Second
	statusGone = 419 // Iceberg's status for an identity that has timed out
)

// send makes a call, and returns the whole response. It retries failures that may be
// temporary, and once with a new token if the token was rejected.
func (c *client) send(ctx context.Context, q call) ([]byte, error) {
	given := ctx
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		given, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	answer := &answer{max: q.max, grow: q.grow, table: q.table != ""}
	renewed := false
	wait := firstWait
	for try := 1; ; try++ {
		token, err := c.token(given, q)
		if err != nil {
			return nil, c.failure(ctx, given, q, err)
		}
		reply, err := c.once(given, q, token, answer)
		if err == nil && reply.status == http.StatusOK && q.decode != nil && endsEarly(q.decode(answer.content)) {
			err = fmt.Errorf("%s: its answer ends early, after %d bytes", c.base.Redacted(), len(answer.content))
		}
		switch {
		case err == nil && reply.status == http.StatusOK:
			return answer.content, nil
		case err == nil && reply.unknown() && !renewed && token != "" && c.tokens.refused(given, token):
			renewed = true
			continue
		case err == nil && !reply.passes():
			return nil, c.refused(q, reply)
		}
		var known *fault.Error
		if errors.As(err, &known) || q.once || try == maxTries || given.Err() != nil {
			if err == nil {
				return nil, c.refused(q, reply)
			}
			return nil, c.failure(ctx, given, q, err)
		}
		if err := c.pause(given, max(wait, min(reply.after, maxWait))); err != nil {
			return nil, c.failure(ctx, given, q, err)
		}
		wait = min(2*wait, maxWait)
	}
}

// endsEarly reports whether an error of decoding JSON is that the JSON ends early.
func endsEarly(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input"
}

// anyJSON decodes a small response that its caller decodes again.
func anyJSON(content []byte) error {
	var any json.RawMessage
	return json.Unmarshal(content, &any)
}

// token returns the token for a request, if any.
func (c *client) token(ctx context.Context, q call) (string, error) {
	if q.plain || c.tokens == nil {
		return "", nil
	}
	return c.tokens.get(ctx)
}

// pause waits for a random time between half of the given time and the whole of it, so that clients
// whose requests failed at the same time retry at different times.
func (c *client) pause(ctx context.Context, wait time.Duration) error {
	return backoff.Sleep(ctx, wait/2+time.Duration(c.random()*float64(wait/2)))
}

// reply is the status of a response, with the details of a failure.
type reply struct {
	status int
	said   string        // the error's message
	kind   string        // the error's type
	after  time.Duration // the delay that the server asks for
	to     string        // the target of a redirect
}

// passes reports whether the status is that of a failure that may be temporary.
func (r reply) passes() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, http.StatusRequestTimeout, statusGone:
		return true
	}
	return false
}

// unknown reports whether the server rejected the identity of the request as unknown or expired.
func (r reply) unknown() bool { return r.status == http.StatusUnauthorized || r.status == statusGone }

// once sends one request. If the status is 200, it reads the body into an answer; if it is 204,
// which means that there is no body, the reply has status 200. Otherwise once puts the error message
// into the reply.
func (c *client) once(ctx context.Context, q call, token string, into *answer) (reply, error) {
	r, err := q.request(ctx)
	if err != nil {
		return reply{}, fault.New(fault.Invalid, "%s cannot be asked: %w", c.base.Redacted(), err)
	}
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if c.sign != nil && !q.plain {
		if err := c.sign(r); err != nil {
			return reply{}, err
		}
	}
	got, err := c.http.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer got.Body.Close() //nolint:errcheck // reading found any error
	out := reply{status: got.StatusCode}
	if seconds, err := strconv.ParseUint(got.Header.Get("Retry-After"), 10, 16); err == nil {
		out.after = time.Duration(seconds) * time.Second //nolint:gosec // 16 bits
	}
	if got.StatusCode == http.StatusNoContent {
		out.status, into.content = http.StatusOK, nil
		return out, nil
	}
	if got.StatusCode != http.StatusOK {
		out.to = got.Header.Get("Location")
		out.kind, out.said = message(got.Body, func(text string) string { return c.redact(text, token) })
		return out, nil
	}
	return out, into.read(got)
}

// Limits of an error response, in bytes.
const (
	maxRefusal = 64 << 10 // of the body
	maxMessage = 300
)

// message parses the body of an error response, in the format of Iceberg or of RFC 6749, and hides
// secrets in its message.
func message(body io.Reader, hide func(string) string) (kind, said string) {
	content, _ := io.ReadAll(io.LimitReader(body, maxRefusal))
	var refusal struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if json.Unmarshal(content, &refusal) != nil {
		return "", ""
	}
	var model struct{ Message, Type string }
	if json.Unmarshal(refusal.Error, &model) == nil && (model.Type != "" || model.Message != "") {
		return model.Type, short(hide(model.Message))
	}
	var code string
	_ = json.Unmarshal(refusal.Error, &code)
	return code, short(hide(strings.TrimSpace(code + " " + refusal.Description)))
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + " …"
	}
	return text
}

// answer receives the body of a response. Retries reuse its memory.
type answer struct {
	content []byte
	max     int64
	grow    func(int64) error
	table   bool // whether the body is the metadata of a table
}

// answerStep is the minimum size of the buffer for a body, in bytes.
const answerStep = 64 << 10

// read reads a whole body. It returns an error if the body exceeds the limit or the memory budget.
func (a *answer) read(r *http.Response) error {
	a.content = a.content[:0]
	if a.max > 0 && r.ContentLength > a.max {
		return a.tooLarge()
	}
	if err := a.room(max(answerStep, r.ContentLength+1)); err != nil {
		return err
	}
	for {
		if len(a.content) == cap(a.content) {
			if err := a.room(2 * int64(len(a.content))); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(a.content[len(a.content):cap(a.content)])
		a.content = a.content[:len(a.content)+n]
		if a.max > 0 && int64(len(a.content)) > a.max {
			return a.tooLarge()
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// room grows the buffer to n bytes, or to one byte more than the limit if n is larger than that.
func (a *answer) room(n int64) error {
	if a.max > 0 {
		n = min(n, a.max+1)
	}
	if n <= int64(cap(a.content)) {
		return nil
	}
	if a.grow != nil {
		if err := a.grow(n); err != nil {
			return err
		}
	}
	a.content = append(make([]byte, 0, n), a.content...)
	return nil
}

func (a *answer) tooLarge() error {
	if !a.table {
		return fault.New(fault.Exhausted, "the catalog's answer has more than %d bytes", a.max).
			WithRemedy("check that the address is that of an Iceberg REST catalog, and any proxy in between")
	}
	return fault.New(fault.Exhausted, "the catalog's answer has more than max_metadata allows, which is %d bytes", a.max).
		WithRemedy("expire snapshots so that the table's metadata becomes smaller, or raise the server's max_metadata")
}

// failure returns the error for a request that got no response.
func (c *client) failure(ctx, given context.Context, q call, err error) error {
	what := fmt.Sprintf("catalog %s: %s", c.options.Name, q.what)
	var known *fault.Error
	switch {
	case ctx.Err() != nil:
		return fault.Op(context.Cause(ctx), "%s", what)
	case given.Err() != nil:
		return fault.New(fault.Unavailable, "%s: %s did not answer within %s", what, c.base.Redacted(), c.options.Timeout).In(q.table, "").
			WithRemedy("check whether the catalog responds; if it is only slow, raise storage_timeout")
	case errors.As(err, &known):
		out := *fault.As(fault.Op(err, "%s", what))
		if out.Table == "" {
			out.Table = q.table
		}
		return &out
	}
	return fault.New(fault.Unavailable, "%s: %w", what, err).In(q.table, "").
		WithRemedy("check that %s responds", c.base.Redacted())
}

// refused returns the error for a response whose status is not 200.
func (c *client) refused(q call, r reply) error {
	if q.failed != nil {
		if err := q.failed(r.status, r.said); err != nil {
			return err
		}
	}
	said := r.said
	if said == "" {
		said = http.StatusText(r.status)
	}
	e := fault.New(fault.Unavailable, "catalog %s: %s: %s answers %d: %s", c.options.Name, q.what, c.base.Redacted(), r.status, said).In(q.table, "")
	e.RetryAfter = r.after
	switch r.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return e.WithRemedy("set uri to the catalog's own address: this one redirects to %q", c.redact(fault.RedactURI(r.to), ""))
	case http.StatusUnauthorized, statusGone:
		return e.WithRemedy("correct the catalog's token or credential: it was refused, or has expired")
	case http.StatusForbidden:
		return e.WithRemedy("allow the identity of the catalog's token or credential to read this")
	case http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable:
		if strings.HasSuffix(c.base.Path, "/v1") {
			return e.WithRemedy("write the catalog's uri without /v1")
		}
		return e.WithRemedy("check that uri, warehouse and prefix of the catalog are those of an Iceberg REST catalog")
	}
	return e.WithRemedy("check why the catalog does not respond")
}
