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

	"github.com/penstock/penstock/internal/fault"
)

// call is one question to a server, which may take several requests.
type call struct {
	what    string // in errors: "load table ml.events"
	table   string // that it is about; ""
	request func(context.Context) (*http.Request, error)
	most    int64             // bytes of an answer; 0 is any number
	grow    func(int64) error // charges so many more bytes of the answer; nil: nothing is
	// failed makes the failure of a status; nil, or a nil error: what holds for all calls.
	failed func(status int, said string) error
	// plain is a request that says by itself who asks: it gets no token and no signature.
	plain bool
}

// How a request is repeated that the server cannot answer now.
const (
	mostTries  = 6
	firstWait  = 100 * time.Millisecond
	mostWait   = 10 * time.Second
	statusGone = 419 // that of Iceberg for an identity that has timed out
)

// send puts a question, and returns the whole answer. A failure that may pass is tried
// again, an identity that has ended once with a new one.
func (c *Catalog) send(ctx context.Context, q call) ([]byte, error) {
	given := ctx
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		given, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	answer := &answer{most: q.most, grow: q.grow, table: q.table != ""}
	renewed := false
	wait := firstWait
	for try := 1; ; try++ {
		token, err := c.token(given, q)
		if err != nil {
			return nil, c.failure(ctx, given, q, err)
		}
		reply, err := c.once(given, q, token, answer)
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
		if errors.As(err, &known) || try == mostTries || given.Err() != nil {
			if err == nil {
				return nil, c.refused(q, reply)
			}
			return nil, c.failure(ctx, given, q, err)
		}
		if err := c.pause(given, max(wait, min(reply.after, mostWait))); err != nil {
			return nil, c.failure(ctx, given, q, err)
		}
		wait = min(2*wait, mostWait)
	}
}

// token is what a request says who asks by, if anything.
func (c *Catalog) token(ctx context.Context, q call) (string, error) {
	if q.plain || c.tokens == nil {
		return "", nil
	}
	return c.tokens.get(ctx)
}

// pause waits for so long, or for half of that: who failed together comes back apart.
func (c *Catalog) pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait/2 + time.Duration(c.random()*float64(wait/2)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reply is what a server says beside the answer.
type reply struct {
	status int
	said   string        // its message, if it refuses
	kind   string        // of its refusal, as Iceberg names them
	after  time.Duration // when it wants to be asked again
	to     string        // where it sends who asks
}

// passes says whether another try may fare better.
func (r reply) passes() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, http.StatusRequestTimeout, statusGone:
		return true
	}
	return false
}

// unknown says whether the server takes the identity for none, or for one that has ended.
func (r reply) unknown() bool { return r.status == http.StatusUnauthorized || r.status == statusGone }

// once sends one request. Of an answer that is no 200 the message is kept.
func (c *Catalog) once(ctx context.Context, q call, token string, into *answer) (reply, error) {
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
	got, err := c.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer got.Body.Close() //nolint:errcheck // what was read is whole or not
	out := reply{status: got.StatusCode}
	if seconds, err := strconv.Atoi(got.Header.Get("Retry-After")); err == nil && seconds > 0 {
		out.after = time.Duration(seconds) * time.Second
	}
	if got.StatusCode != http.StatusOK {
		out.to = got.Header.Get("Location")
		out.kind, out.said = message(got.Body, func(text string) string { return c.without(text, token) })
		return out, nil
	}
	return out, into.read(got)
}

// Limits of the message of a refusal, in bytes.
const (
	mostRefusal = 64 << 10
	mostMessage = 300
)

// message reads what a refusal says, as Iceberg has it or as RFC 6749 has it, less what
// is hidden.
func message(body io.Reader, hide func(string) string) (kind, said string) {
	content, _ := io.ReadAll(io.LimitReader(body, mostRefusal))
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
	if len(text) > mostMessage {
		text = strings.ToValidUTF8(text[:mostMessage], "") + " …"
	}
	return text
}

// answer collects what a server answers. Its memory is used again by the next try.
type answer struct {
	content []byte
	most    int64
	grow    func(int64) error
	table   bool // it is a table's metadata
}

// answerStep is by how much an answer of unknown length grows at the least, in bytes.
const answerStep = 64 << 10

// read takes a whole body. What does not fit in the limit, or in the memory that may be
// held, is an error.
func (a *answer) read(r *http.Response) error {
	a.content = a.content[:0]
	if a.most > 0 && r.ContentLength > a.most {
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
		if a.most > 0 && int64(len(a.content)) > a.most {
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

// room makes place for n bytes, or for as many as there may be and one more.
func (a *answer) room(n int64) error {
	if a.most > 0 {
		n = min(n, a.most+1)
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
		return fault.New(fault.Exhausted, "the catalog's answer has more than %d bytes", a.most).
			WithRemedy("see that the address is that of an Iceberg REST catalog, and what stands between")
	}
	return fault.New(fault.Exhausted, "the catalog's answer has more than max_metadata allows, which is %d bytes", a.most).
		WithRemedy("expire snapshots so that the table's metadata becomes smaller, or raise the server's max_metadata")
}

// failure classifies what kept a request from being answered.
func (c *Catalog) failure(ctx, given context.Context, q call, err error) error {
	what := fmt.Sprintf("catalog %s: %s", c.options.Name, q.what)
	var known *fault.Error
	switch {
	case ctx.Err() != nil:
		return fault.Op(context.Cause(ctx), "%s", what)
	case given.Err() != nil:
		return fault.New(fault.Unavailable, "%s: %s did not answer within %s", what, c.base.Redacted(), c.options.Timeout).In(q.table, "").
			WithRemedy("see whether the catalog answers; if it is only slow, raise storage_timeout")
	case errors.As(err, &known):
		out := *fault.As(fault.Op(err, "%s", what))
		if out.Table == "" {
			out.Table = q.table
		}
		return &out
	}
	return fault.New(fault.Unavailable, "%s: %w", what, err).In(q.table, "").
		WithRemedy("see that %s answers", c.base.Redacted())
}

// refused is the failure of a status.
func (c *Catalog) refused(q call, r reply) error {
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
		return e.WithRemedy("write the address that the catalog really has as its uri: this one sends to %q", c.without(fault.RedactURI(r.to), ""))
	case http.StatusUnauthorized, statusGone:
		return e.WithRemedy("correct the catalog's token or credential: it is refused, or has ended")
	case http.StatusForbidden:
		return e.WithRemedy("let the identity of the catalog's token or credential read this in the catalog")
	case http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable:
		if strings.HasSuffix(c.base.Path, "/v1") {
			return e.WithRemedy("write the catalog's uri without /v1")
		}
		return e.WithRemedy("see that uri, warehouse and prefix of the catalog are those of an Iceberg REST catalog")
	}
	return e.WithRemedy("see why the catalog does not answer")
}
