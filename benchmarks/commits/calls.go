package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// restCalls is a proxy in front of a REST server that adds up the time from each call to the end of its answer.
type restCalls struct {
	server *httptest.Server
	total  atomic.Int64 // nanoseconds
}

// measure starts a proxy in front of a server. The caller closes it.
func measure(uri string) (*restCalls, error) {
	target, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	c := &restCalls{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		proxy.ServeHTTP(w, r)
		c.total.Add(int64(time.Since(began)))
	}))
	return c, nil
}

// seconds returns the time of all calls so far; none without a proxy.
func (c *restCalls) seconds() float64 {
	if c == nil {
		return 0
	}
	return time.Duration(c.total.Load()).Seconds()
}
