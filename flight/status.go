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
)

// TrailerKey is the trailer that carries a failure's details as JSON.
const TrailerKey = "penstock-error-bin"

// maxMessage is how long a status message may be, in bytes, as percent-encoded.
const maxMessage = 2048

// What ended a call, beside the names of the fault kinds: labels of Observer
// and of the logs.
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
}

// ending is how a call ends on the wire.
type ending struct {
	label  string         // a fault kind's name, or one of the end… constants
	status *status.Status // nil: the call went well
	detail *details       // nil: none
}

// trailer returns what is sent beside the status: details of at most so many
// bytes.
func (e ending) trailer(most int) metadata.MD {
	if e.detail == nil {
		return nil
	}
	return metadata.Pairs(TrailerKey, string(e.detail.encode(most)))
}

// endedByUs is why the server ended a call that its client had not given up.
type endedByUs struct{ error }

// Unwrap returns the failure that the client is told.
func (e endedByUs) Unwrap() error { return e.error }

// endingOf maps an error to the wire. ctx is the call's: a call that its client
// gave up ends as cancelled, whatever error that led to.
func endingOf(ctx context.Context, err error) ending {
	if err == nil {
		return ending{label: endOK}
	}
	if errors.As(err, new(endedByUs)) {
		ctx = context.WithoutCancel(ctx)
	}
	canceled := errors.Is(ctx.Err(), context.Canceled) || fault.KindOf(err) == fault.Internal && errors.Is(err, context.Canceled)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ending{label: endDeadline, status: status.New(codes.DeadlineExceeded, "the call's deadline has passed")}
	case canceled:
		return cancelled()
	}
	var onWire interface{ GRPCStatus() *status.Status }
	if errors.As(err, &onWire) {
		s := onWire.GRPCStatus()
		if s.Code() == codes.Unavailable { // the client's connection is lost, and ctx is cancelled in a moment
			return cancelled()
		}
		return ending{label: strings.ToLower(s.Code().String()), status: s}
	}
	e := fault.As(err)
	detail := detailsOf(e)
	return ending{label: e.Kind.String(), status: status.New(codeOf(e.Kind), messageOf(e)), detail: &detail}
}

// cancelled is the ending of a call whose client has gone.
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

// messageOf returns the status message: the whole failure in one line, as long
// as it may be.
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
		RowGroup: e.RowGroup, RetryAfterMS: e.RetryAfter.Milliseconds(), Differs: e.Differs,
	}
}

// encode returns the details as JSON of at most so many bytes: long texts
// are cut, and lists end with how many entries are left out.
func (d details) encode(most int) []byte {
	if out := marshal(d); len(out) <= most {
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
			if out := marshal(short); len(out) <= most {
				return out
			}
		}
		short.Faults, short.Differs = nil, nil
		if out := marshal(short); len(out) <= most || text == 0 {
			return out
		}
	}
}

// fewer returns the first n faults, cut, and a last one that says how many more
// there are.
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

// cut shortens a text to about n bytes, between runes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// marshal renders values of ours, which always can be, without escaping <, >
// and & as for web pages.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
