package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/internal/fault"
)

// fault converts the gRPC error of a call to a failure. If ctx has ended, it returns the error of
// ctx. If the trailer has the details of a failure, it returns this failure. Otherwise, it returns
// a failure whose kind follows from the gRPC code. If no Penstock server answered, the failure says
// why.
func (c *Client) fault(ctx context.Context, err error, trailer metadata.MD) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if text := trailer.Get(failure.TrailerKey); len(text) > 0 {
		return c.versions.compared(failure.Parse([]byte(text[0])))
	}
	s := status.Convert(err)
	e := fault.New(failure.KindOf(s.Code()), "%s", s.Message())
	if e.Kind == fault.Unavailable {
		e.Op = "connect to " + c.name
		if c.explainTLS(ctx, e) {
			return e
		}
		if strings.Contains(e.Message, "server preface: http2:") {
			e.Message = "this address is not a Flight server, but perhaps an HTTP server: " + trimStatus(e.Message)
			return e.WithRemedy("use the address that penstock serve prints on standard output, not that of its metrics")
		}
		if strings.Contains(e.Message, "error reading server preface:") {
			e.Message = "the server accepts connections, and does not answer: " + trimStatus(e.Message)
			return e.WithRemedy("check that its process is neither stopped nor overloaded, and that the address is that of penstock serve")
		}
		e.Message = "no server answers: " + trimStatus(e.Message)
		if proxied(c.target) {
			return e.WithRemedy("the variable HTTPS_PROXY makes gRPC connect through a proxy: add the host of %s to NO_PROXY, or check that the proxy passes on HTTP/2", c.name)
		}
		return e.WithRemedy("start one there with penstock serve --config FILE, or correct --uri; --config FILE reads without a server")
	}
	if s.Code() == codes.Unimplemented { // a Penstock server would have sent details with this code
		e.Op, e.Message = "connect to "+c.name, "this address is not a Penstock server: "+e.Message
		return e.WithRemedy("use the address that penstock serve prints on standard output")
	}
	if e.Kind == fault.Exhausted && strings.Contains(e.Message, oversized) {
		return e.WithRemedy("ask for fewer rows in a batch (batch_rows, --batch-rows) or for fewer columns, or lower max_batch_bytes in the config file of the server")
	}
	return e
}

// oversized is a part of the text with which gRPC ends a call that has a message above the limit of
// a client, a proxy or a server.
const oversized = "message larger than max"

// trimStatus removes the text that gRPC puts around the operating system's error for a connection.
func trimStatus(message string) string {
	message = strings.TrimPrefix(message, "connection error: desc = ")
	if inner, err := strconv.Unquote(message); err == nil {
		message = inner
	}
	return strings.TrimPrefix(strings.TrimPrefix(message, "transport: "), "Error while dialing: ")
}

// broken converts the error of a stream that failed after the given number of rows. A server that
// ends a stream with a failure sends details in the trailer. If the stream became unavailable
// without details, the server or the connection to it was lost, and the returned failure says so.
func (c *Client) broken(ctx context.Context, err error, trailer metadata.MD, rows int64) error {
	e := c.fault(ctx, err, trailer)
	var gone *fault.Error
	if len(trailer.Get(failure.TrailerKey)) > 0 || !errors.As(e, &gone) || gone.Kind != fault.Unavailable {
		return e
	}
	return fault.New(fault.Unavailable, "the server or the connection to it was lost after %s: %s", fault.Count(rows, "row"), trimStatus(status.Convert(err).Message())).
		WithRemedy("check the server's log and restart it, then read again: the rows so far are incomplete")
}

// trimName removes the name of an action from the beginning of a failure's message.
func trimName(err error, action string) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		e.Op = strings.TrimPrefix(strings.TrimPrefix(e.Op, action), ": ")
		e.Message = strings.TrimPrefix(e.Message, action+": ")
	}
	return err
}

// proxied reports whether gRPC connects to a target through a proxy that the environment names.
func proxied(target string) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: target}})
	return err == nil && proxy != nil
}
