package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// TrailerKey is the trailer that carries a failure's details as JSON.
const TrailerKey = "penstock-error-bin"

// VersionKey is the header of an answered call that carries the version of the server, for errors of clients of another version.
const VersionKey = "penstock-version"

// maxMessage bounds a status message, in percent-encoded bytes.
const maxMessage = 2048

// Labels of how a call ended, in Observer and logs, besides the names of fault kinds.
const (
	endOK        = "ok"
	endCancelled = "cancelled"
	endDeadline  = "deadline"
)

// details is the JSON form of a failure.
type details struct {
	Kind         string        `json:"kind"`
	Message      string        `json:"message"`
	Remedy       string        `json:"remedy,omitempty"`
	Faults       []fault.Field `json:"faults,omitempty"`
	Table        string        `json:"table,omitempty"`
	File         string        `json:"file,omitempty"`
	RowGroup     *int          `json:"row_group,omitempty"`
	RetryAfterMS int64         `json:"retry_after_ms,omitempty"`
	Differs      []string      `json:"differs,omitempty"`
	Uncertain    bool          `json:"uncertain,omitempty"` // the change of a table may have been made
}

// ending is how a call ends on the wire.
type ending struct {
	label  string         // a fault kind's name, or one of the end… constants
	status *status.Status // nil: the call succeeded
	detail *details       // may be nil
}

// trailer returns the trailer to send with the status, with details of at most maxBytes.
func (e ending) trailer(maxBytes int) metadata.MD {
	if e.detail == nil {
		return nil
	}
	return metadata.Pairs(TrailerKey, string(e.detail.encode(maxBytes)))
}

// endedByServer is the cause of a call that the server ended.
type endedByServer struct{ err error }

func (e endedByServer) Error() string { return e.err.Error() }

// Unwrap returns the failure that the client gets.
func (e endedByServer) Unwrap() error { return e.err }

// endsByServer returns a function that ends a call with a cause of the server.
func endsByServer(end context.CancelCauseFunc) func(error) {
	return func(cause error) { end(endedByServer{cause}) }
}

// endingOf maps an error to the wire. ctx is that of the call: a call that its client
// cancelled ends as cancelled, whatever error followed.
func endingOf(ctx context.Context, err error) ending {
	if err == nil {
		return ending{label: endOK}
	}
	if errors.As(err, new(endedByServer)) {
		ctx = context.WithoutCancel(ctx)
	}
	canceled := errors.Is(ctx.Err(), context.Canceled) || fault.KindOf(err) == fault.Internal && errors.Is(err, context.Canceled)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ending{label: endDeadline, status: status.New(codes.DeadlineExceeded, "the deadline of the call has passed")}
	case canceled:
		return cancelled()
	}
	var onWire interface{ GRPCStatus() *status.Status }
	if errors.As(err, &onWire) {
		s := onWire.GRPCStatus()
		if s.Code() == codes.Unavailable { // the connection is lost, and ctx is about to be cancelled
			return cancelled()
		}
		return ending{label: strings.ToLower(s.Code().String()), status: s}
	}
	e := fault.As(err)
	detail := detailsOf(e)
	return ending{label: e.Kind.String(), status: status.New(codeOf(e.Kind), messageOf(e)), detail: &detail}
}

// cancelled returns the ending of a call whose client has gone.
func cancelled() ending {
	return ending{label: endCancelled, status: status.New(codes.Canceled, "the call was cancelled")}
}

// codeOf returns the gRPC code of a kind.
func codeOf(kind fault.Kind) codes.Code {
	switch kind {
	case fault.Invalid:
		return codes.InvalidArgument
	case fault.NotFound:
		return codes.NotFound
	case fault.Unauthenticated:
		return codes.Unauthenticated
	case fault.Forbidden:
		return codes.PermissionDenied
	case fault.Expired:
		return codes.FailedPrecondition
	case fault.Conflict:
		return codes.Aborted
	case fault.Exhausted:
		return codes.ResourceExhausted
	case fault.Corrupt:
		return codes.DataLoss
	case fault.Unavailable:
		return codes.Unavailable
	case fault.Internal:
	}
	return codes.Internal
}

// messageOf returns the status message: the failure in one line, cut to maxMessage.
func messageOf(e *fault.Error) string {
	text := strings.ToValidUTF8(e.Error(), "�")
	encoded := 0
	for i, r := range text {
		n := utf8.RuneLen(r)
		if n > 1 || r < ' ' || r > '~' || r == '%' {
			n *= 3
		}
		if encoded += n; encoded > maxMessage-9 { // room for the ellipsis
			return text[:i] + "…"
		}
	}
	return text
}

func detailsOf(e *fault.Error) details {
	message := e.Message
	if e.Op != "" {
		message = e.Op + ": " + message
	}
	return details{
		Kind: e.Kind.String(), Message: message, Remedy: e.Remedy, Faults: e.Faults, Table: e.Table, File: e.File,
		RowGroup: e.RowGroup, RetryAfterMS: e.RetryAfter.Milliseconds(), Differs: e.Differs, Uncertain: commit.Uncertain(e),
	}
}

// encode returns the details as JSON of at most maxBytes: long texts are cut, and lists end
// with the number of entries that were left out.
func (d details) encode(maxBytes int) []byte {
	if out := marshal(d); len(out) <= maxBytes {
		return out
	}
	for text := 1024; ; text /= 2 {
		short := d
		short.Message, short.Remedy = cut(d.Message, text), cut(d.Remedy, text/2)
		short.Table, short.File = cut(d.Table, text/4), cut(d.File, text/2)
		for n := max(len(d.Faults), len(d.Differs)); n >= 1; n /= 2 {
			short.Faults, short.Differs = fewer(d.Faults, n, text/4), nil
			for _, name := range d.Differs[:min(n, len(d.Differs))] {
				short.Differs = append(short.Differs, cut(name, text/4))
			}
			if out := marshal(short); len(out) <= maxBytes {
				return out
			}
		}
		short.Faults, short.Differs = nil, nil
		if out := marshal(short); len(out) <= maxBytes || text == 0 {
			return out
		}
	}
}

// fewer returns the first n faults, cut, and a last one with the number of those left out.
func fewer(faults []fault.Field, n, text int) []fault.Field {
	var out []fault.Field
	for _, f := range faults[:min(n, len(faults))] {
		out = append(out, fault.Field{Field: cut(f.Field, text), Position: f.Position, Message: cut(f.Message, text), Nearest: cut(f.Nearest, text)})
	}
	if left := len(faults) - n; left > 0 {
		out = append(out, fault.Field{Message: fmt.Sprintf("and %d more", left)})
	}
	return out
}

// cut shortens a text to about n bytes, at a rune.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// marshal returns the JSON of a value that always has one, without escaping <, > and &.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
