// Package failure is the only place that maps errors to the wire: the gRPC code and message of an
// ended call, and a trailer with the details that clients show.
//
// It guarantees that a call cancelled by its client ends as cancelled, whatever error followed, and
// that a call ended by the server has the cause that the server gave. Details fit into the trailers
// that clients accept: texts are cut, and lists end with the number of entries that are left out.
package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// TrailerKey is the trailer that carries a failure's details as JSON.
const TrailerKey = "penstock-error-bin"

// MaxDetails is the size of details, in bytes of JSON, that every client accepts: 8 KB of headers, and the encoding of the details adds
// a third.
const MaxDetails = 4096

// maxMessage bounds a status message, in percent-encoded bytes.
const maxMessage = 2048

// Labels of how a call ended, in Observer and logs, besides the names of fault kinds.
const (
	endOK        = "ok"
	endCancelled = "cancelled"
	endDeadline  = "deadline"
)

// Details is the JSON form of a failure.
type Details struct {
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

// Ending is how a call ends on the wire.
type Ending struct {
	Label  string         // a fault kind's name, or one of the end… constants
	Status *status.Status // nil: the call succeeded
	detail *Details       // may be nil
}

// Trailer returns the trailer to send with the status, with details of at most maxBytes.
func (e Ending) Trailer(maxBytes int) metadata.MD {
	if e.detail == nil {
		return nil
	}
	return metadata.Pairs(TrailerKey, string(e.detail.encode(maxBytes)))
}

// byServer is the cause of a call that the server ended.
type byServer struct{ error }

// Unwrap returns the failure that the client gets.
func (e byServer) Unwrap() error { return e.error }

// ByServer marks an error as the cause of a call that the server ended.
func ByServer(cause error) error { return byServer{cause} }

// IsByServer reports whether an error is the cause of a call that the server ended.
func IsByServer(err error) bool { return errors.As(err, new(byServer)) }

// EndsByServer returns a function that ends a call and marks its cause as the server's.
func EndsByServer(end context.CancelCauseFunc) func(error) {
	return func(cause error) { end(ByServer(cause)) }
}

// Cause returns the cause of a context that the server ended, instead of the error
// that resulted from it; otherwise it returns err.
func Cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// EndingOf maps an error to the wire. ctx is that of the call: a call that its client
// cancelled ends as cancelled, whatever error followed.
func EndingOf(ctx context.Context, err error) Ending {
	if err == nil {
		return Ending{Label: endOK}
	}
	if IsByServer(err) {
		ctx = context.WithoutCancel(ctx)
	}
	canceled := errors.Is(ctx.Err(), context.Canceled) || fault.KindOf(err) == fault.Internal && errors.Is(err, context.Canceled)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return late()
	case canceled:
		return cancelled()
	}
	var onWire interface{ GRPCStatus() *status.Status }
	if errors.As(err, &onWire) {
		return endingOnWire(onWire.GRPCStatus())
	}
	e := fault.As(err)
	detail := DetailsOf(e)
	return Ending{Label: e.Kind.String(), Status: status.New(codeOf(e.Kind), messageOf(e)), detail: &detail}
}

// cancelled returns the ending of a call whose client has gone.
func cancelled() Ending {
	return Ending{Label: endCancelled, Status: status.New(codes.Canceled, "the call was cancelled")}
}

// late returns the ending of a call whose deadline has passed.
func late() Ending {
	return Ending{Label: endDeadline, Status: status.New(codes.DeadlineExceeded, "the deadline of the call has passed")}
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

// endingOnWire returns the ending of a call with a status that gRPC or another part made. If a
// send or a receive fails, the client may be gone before the call's context ends.
func endingOnWire(s *status.Status) Ending {
	switch s.Code() {
	case codes.Canceled, codes.Unavailable:
		return cancelled()
	case codes.DeadlineExceeded:
		return late()
	default:
		return Ending{Label: KindOf(s.Code()).String(), Status: s}
	}
}

// KindOf returns the kind of a failure that has a gRPC code but no details.
func KindOf(code codes.Code) fault.Kind {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented:
		return fault.Invalid
	case codes.NotFound:
		return fault.NotFound
	case codes.Unauthenticated:
		return fault.Unauthenticated
	case codes.PermissionDenied:
		return fault.Forbidden
	case codes.FailedPrecondition:
		return fault.Expired
	case codes.Aborted:
		return fault.Conflict
	case codes.ResourceExhausted:
		return fault.Exhausted
	case codes.DataLoss:
		return fault.Corrupt
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fault.Unavailable
	default:
		return fault.Internal
	}
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

// DetailsOf returns the details of an error.
func DetailsOf(e *fault.Error) Details {
	message := e.Message
	if e.Op != "" {
		message = e.Op + ": " + message
	}
	return Details{
		Kind: e.Kind.String(), Message: message, Remedy: e.Remedy, Faults: e.Faults, Table: e.Table, File: e.File,
		RowGroup: e.RowGroup, RetryAfterMS: e.RetryAfter.Milliseconds(), Differs: e.Differs, Uncertain: commit.Uncertain(e),
	}
}

// encode returns the details as JSON of at most maxBytes: long texts are cut, and lists end
// with the number of entries that were left out.
func (d Details) encode(maxBytes int) []byte {
	if out := jsontext.Of(d); len(out) <= maxBytes {
		return out
	}
	for text := 1024; ; text /= 2 {
		short := d
		short.Message, short.Remedy = fault.Shorten(d.Message, text), fault.Shorten(d.Remedy, text/2)
		short.Table, short.File = fault.Shorten(d.Table, text/4), fault.Shorten(d.File, text/2)
		for n := max(len(d.Faults), len(d.Differs)); n >= 1; n /= 2 {
			short.Faults, short.Differs = fewer(d.Faults, n, text/4), nil
			for _, name := range d.Differs[:min(n, len(d.Differs))] {
				short.Differs = append(short.Differs, fault.Shorten(name, text/4))
			}
			if out := jsontext.Of(short); len(out) <= maxBytes {
				return out
			}
		}
		short.Faults, short.Differs = nil, nil
		if out := jsontext.Of(short); len(out) <= maxBytes || text == 0 {
			return out
		}
	}
}

// fewer returns the first n faults, cut, followed by one with the number of omitted faults.
func fewer(faults []fault.Field, n, text int) []fault.Field {
	var out []fault.Field
	for _, f := range faults[:min(n, len(faults))] {
		out = append(out, fault.Field{Field: fault.Shorten(f.Field, text), Position: f.Position, Message: fault.Shorten(f.Message, text), Nearest: fault.Shorten(f.Nearest, text)})
	}
	if left := len(faults) - n; left > 0 {
		out = append(out, fault.Field{Message: fmt.Sprintf("and %d more", left)})
	}
	return out
}
