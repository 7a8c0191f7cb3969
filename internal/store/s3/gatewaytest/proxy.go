package gatewaytest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request is one request that a proxy has received.
type Request struct {
	Number int // number of the request, counted from 1
	Method string
	Path   string // path of the URL: /bucket/key
	Range  string // the Range header; "" if there is none
	Bytes  int64  // number of bytes of the response's body
	Status int    // status of the response; 0 if there was no response
}

// Fault is a change to a response. The zero value changes nothing.
type Fault struct {
	Kind  FaultKind
	At    int64  // for Cut and Stall: number of bytes of the body before the fault; for Flip: offset in the object
	Code  int    // status, for Answer
	After string // value of Retry-After, for Answer
}

// FaultKind is a way to change a response.
type FaultKind int

// The faults.
const (
	None        FaultKind = iota
	Cut                   // the connection ends in the body
	Answer                // another status, with S3's error code for it
	Refuse                // no answer, and the connection ends
	Stall                 // the body stops, but the connection stays open
	WrongRange            // the Content-Range of the bytes one further
	WrongTotal            // the Content-Range of an object of another length
	WrongLength           // one byte less than Content-Range says
	WrongTag              // the ETag of another object
	NoTag                 // no ETag
	Whole                 // status 200, as if the response had the whole object
	Page                  // status 200 with an error page
	Flip                  // one bit of the object is wrong
	faultKinds
	Hang // no answer until the client leaves; it is not one of FaultKinds
)

// FaultKinds returns all faults except None and Hang.
func FaultKinds() []FaultKind {
	var out []FaultKind
	for k := None + 1; k < faultKinds; k++ {
		out = append(out, k)
	}
	return out
}

// String names a kind.
func (k FaultKind) String() string {
	return [...]string{
		"none", "cut", "answer", "refuse", "stall", "wrong range", "wrong total", "wrong length", "wrong tag", "no tag", "whole", "page", "flip",
	}[k]
}

// Proxy forwards requests to a gateway. It is safe for concurrent use.
type Proxy struct {
	URL string

	target string
	server *http.Server
	client *http.Transport
	closed chan struct{}

	mu       sync.Mutex
	delay    time.Duration
	plan     func(Request) Fault
	requests []*Request
}

// NewProxy starts a proxy in front of the server at a URL.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		URL: "http://" + l.Addr().String(), target: target, closed: make(chan struct{}),
		client: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true, ReadBufferSize: 64 << 10},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	close(p.closed)
	p.client.CloseIdleConnections()
	return p.server.Close()
}

// Delay makes every request wait for some time before it is forwarded.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Spoil sets a function that chooses the fault of the response to each request; nil means no
// faults.
func (p *Proxy) Spoil(plan func(Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Requests returns the requests so far, in the order in which they arrived.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Request, len(p.requests))
	for i, r := range p.requests {
		out[i] = *r
	}
	return out
}

// Reset removes the recorded requests.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// begin records a request. It returns the record, the fault of its response, and the delay.
func (p *Proxy) begin(r *http.Request) (*Request, Fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &Request{Number: len(p.requests) + 1, Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range")}
	p.requests = append(p.requests, q)
	var f Fault
	if p.plan != nil {
		f = p.plan(*q)
	}
	return q, f, p.delay
}

// note calls change with the lock held, to update the record of a request that other goroutines may
// read.
func (p *Proxy) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, f, delay := p.begin(r)
	if wait(r.Context(), delay) != nil {
		return
	}
	switch f.Kind {
	case Refuse:
		panic(http.ErrAbortHandler)
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-p.closed:
		}
		panic(http.ErrAbortHandler)
	case Answer:
		p.answer(w, q, f)
		return
	case Page:
		p.note(func() { q.Status = http.StatusOK })
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body><h1>Something went wrong</h1></body></html>")
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", strings.TrimPrefix(p.target, "http://")
	response, err := p.client.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close() //nolint:errcheck // the body was read
	p.pass(w, r, response, q, f)
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer sends an error response in the form of S3.
func (p *Proxy) answer(w http.ResponseWriter, q *Request, f Fault) {
	code := map[int]string{500: "InternalError", 503: "SlowDown", 429: "TooManyRequests", 403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed"}[f.Code]
	p.note(func() { q.Status = f.Code })
	w.Header().Set("Content-Type", "application/xml")
	if f.After != "" {
		w.Header().Set("Retry-After", f.After)
	}
	w.WriteHeader(f.Code)
	_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>as asked for</Message></Error>", code)
}

// pass forwards a response with the fault f.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, from *http.Response, q *Request, f Fault) {
	h := w.Header()
	for name, values := range from.Header {
		h[name] = slices.Clone(values)
	}
	first, last, total := parts(from.Header.Get("Content-Range"))
	length := from.ContentLength
	switch f.Kind {
	case WrongRange:
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, total+1))
	case WrongTotal:
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, total+1))
	case WrongLength:
		length = max(0, length-1)
	case WrongTag:
		h.Set("ETag", `"00000000000000000000000000000000"`)
	case NoTag:
		h.Del("ETag")
	case Whole:
		h.Del("Content-Range")
		from.StatusCode = http.StatusOK
	}
	if length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	p.note(func() { q.Status = from.StatusCode })
	w.WriteHeader(from.StatusCode)
	body := io.Reader(from.Body)
	switch f.Kind {
	case Cut, Stall:
		body = io.LimitReader(body, f.At)
	case WrongLength:
		body = io.LimitReader(body, length)
	case Flip:
		body = &flipping{under: body, at: f.At - first}
	}
	n, _ := io.CopyBuffer(writer{w}, body, make([]byte, 256<<10))
	p.note(func() { q.Bytes = n })
	switch f.Kind {
	case Cut:
		panic(http.ErrAbortHandler)
	case Stall:
		if length >= 0 && n >= length {
			return // the whole body was sent, so nothing is left to stall
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-p.closed:
		}
		panic(http.ErrAbortHandler)
	}
}

// writer hides the method ReadFrom of a response, which would copy with a small buffer.
type writer struct{ io.Writer }

// parts parses a Content-Range.
func parts(text string) (first, last, total int64) {
	_, _ = fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &total)
	return first, last, total
}

// flipping is a reader that flips one bit of what it reads.
type flipping struct {
	under io.Reader
	at    int64 // number of bytes before the byte with that bit
}

func (f *flipping) Read(p []byte) (int, error) {
	n, err := f.under.Read(p)
	if f.at >= 0 && f.at < int64(n) {
		p[f.at] ^= 1
	}
	f.at -= int64(n)
	return n, err
}
