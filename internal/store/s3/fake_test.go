package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store/s3"
)

// fake is a server of one object. Its response to each request can be replaced.
type fake struct {
	*httptest.Server
	content []byte
	tag     string
	answers map[int]http.HandlerFunc // by number, from 1; 0: all others

	mu       sync.Mutex
	requests []*http.Request
}

func newFake(t *testing.T, content []byte) *fake {
	t.Helper()
	f := &fake{content: content, tag: `"one"`, answers: map[int]http.HandlerFunc{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Clone(context.Background()))
	answer := f.answers[len(f.requests)]
	if answer == nil {
		answer = f.answers[0]
	}
	f.mu.Unlock()
	if answer == nil {
		answer = f.give
	}
	answer(w, r)
}

// give answers as S3 does.
func (f *fake) give(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// part answers with a body and headers of one's own.
func part(contentRange, tag string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", contentRange)
		w.Header().Set("ETag", tag)
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(body)
	}
}

func said(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
	}
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// countOf returns the number of requests of a method.
func (f *fake) countOf(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if r.Method == method {
			n++
		}
	}
	return n
}

// answerAll sets the answer of requests without an answer of their own, also while requests run.
func (f *fake) answerAll(answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[0] = answer
}

// open makes a store of the server that does not wait between tries.
func (f *fake) open(t *testing.T, change func(*s3.Options)) *s3.Store {
	t.Helper()
	o := s3.Options{
		Settings: s3.Settings{Endpoint: f.URL, PathStyle: true, AccessKeyID: "key", SecretAccessKey: "secret"},
		Random:   func() float64 { return 0 },
	}
	if change != nil {
		change(&o)
	}
	s, err := s3.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

const location = "s3://bucket/a.parquet"

func digits(n int) []byte { return bytes.Repeat([]byte("0123456789"), n/10) }
