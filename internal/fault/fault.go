// Package fault holds the few kinds of failure that Penstock knows.
//
// Every error that reaches a user is, or wraps, an *Error: it says what was
// done and to what (the operation), what went wrong (the message), and what
// the user can do (the remedy). Package flight maps kinds to the wire, in one
// place; nobody else looks at the text of an error to decide what to do.
// Errors of other libraries that nobody has classified count as Internal.
//
// No error shows a password: what it is made of is redacted when it is made, and
// once more when it is rendered.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says whose fault a failure is and what may follow from it. The set is
// closed: each is one gRPC code and one Python exception.
type Kind int

// The kinds of failure.
const (
	Internal        Kind = iota // a bug of ours
	Invalid                     // the request names something wrong; Faults say what
	NotFound                    // a dataset, table, ref, snapshot or file that does not exist
	Unauthenticated             // no, or unreadable, credentials
	Forbidden                   // known, but not allowed
	Expired                     // a ticket or snapshot that is gone; plan again
	Conflict                    // a commit that lost
	Exhausted                   // a limit is reached; try later or with less
	Corrupt                     // data that contradicts itself; a file is named
	Unavailable                 // storage or a catalog that does not answer
)

var kindNames = [...]string{ //nolint:gochecknoglobals // a constant table; Go has no constant arrays
	"internal", "invalid", "not found", "unauthenticated", "forbidden",
	"expired", "conflict", "exhausted", "corrupt", "unavailable",
}

// String returns the kind's name as it stands in error details on the wire.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return kindNames[Internal]
	}
	return kindNames[k]
}

// Field is one thing that is wrong with a request or a config file.
type Field struct {
	Field    string `json:"field"`              // path of the field, as "staging[0].key"
	Position int    `json:"position,omitempty"` // 1-based position in the field's text, where there is one (filters)
	Message  string `json:"message"`
	Nearest  string `json:"nearest,omitempty"` // the known name nearest to an unknown one
	Line     int    `json:"-"`                 // 1-based line of a config file; 0: it is of none
}

// String renders the fault for a person.
func (f Field) String() string {
	var b strings.Builder
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	if f.Position > 0 {
		fmt.Fprintf(&b, "at position %d: ", f.Position)
	}
	b.WriteString(f.Message)
	if f.Line > 0 {
		fmt.Fprintf(&b, " (line %d)", f.Line)
	}
	if f.Nearest != "" {
		fmt.Fprintf(&b, " (did you mean %q?)", f.Nearest)
	}
	return Redact(b.String())
}

// redacted returns the fault without secrets.
func (f Field) redacted() Field {
	f.Field, f.Message, f.Nearest = Redact(f.Field), Redact(f.Message), Redact(f.Nearest)
	return f
}

// Error is a failure with its kind and all that is known about it. Only Kind
// and Message are always set. Treat values as immutable once returned.
type Error struct {
	Kind       Kind
	Op         string // operation and subject: "read bucket 7 of features.history@8812"
	Message    string
	Remedy     string        // what the user can do
	Faults     []Field       // of Invalid: every fault found, not only the first
	Table      string        // table and file name what was read
	File       string        //
	RowGroup   *int          // row group of File, where known
	RetryAfter time.Duration // of Exhausted and Unavailable: when to try again; 0 is unknown
	Differs    []string      // of a foreign cursor or pin: what differs
	Err        error         // cause, may be nil
}

// New makes an error of a kind with a formatted message; a %w verb in the
// format keeps its operand as the cause.
func New(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: Redact(err.Error()), Err: errors.Unwrap(err)}
}

// InvalidField makes an Invalid error about one field.
func InvalidField(field, format string, args ...any) *Error {
	f := Field{Field: field, Message: fmt.Sprintf(format, args...)}.redacted()
	return &Error{Kind: Invalid, Message: f.String(), Faults: []Field{f}}
}

// Fields makes one Invalid error of all the faults, or nil if there are none.
// It returns an error, not an *Error, so that nil stays nil.
func Fields(faults []Field) error {
	if len(faults) == 0 {
		return nil
	}
	texts, shown := make([]string, len(faults)), make([]Field, len(faults))
	for i, f := range faults {
		shown[i] = f.redacted()
		texts[i] = shown[i].String()
	}
	return &Error{Kind: Invalid, Message: strings.Join(texts, "; "), Faults: shown}
}

// WithRemedy says what the user can do, and returns the receiver.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	e.Remedy = Redact(fmt.Sprintf(format, args...))
	return e
}

// In names the table and file that the failure is about, and returns the receiver.
func (e *Error) In(table, file string) *Error {
	e.Table, e.File = Redact(table), Redact(file)
	return e
}

// InRowGroup names the row group of File, and returns the receiver.
func (e *Error) InRowGroup(n int) *Error {
	e.RowGroup = &n
	return e
}

// Error renders operation, message, file and remedy in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	b.WriteString(e.Message)
	if e.File != "" && !strings.Contains(e.Message, e.File) {
		b.WriteString(" (file " + e.File)
		if e.RowGroup != nil {
			fmt.Fprintf(&b, ", row group %d", *e.RowGroup)
		}
		b.WriteString(")")
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return Redact(b.String())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Op adds the operation and its subject in front of an error and keeps its
// kind and details. Nil stays nil; context errors stay what errors.Is sees.
func Op(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	op := Redact(fmt.Sprintf(format, args...))
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Kind: KindOf(err), Op: op, Message: Redact(err.Error()), Err: err}
	}
	out := *e
	if out.Op != "" {
		op += ": " + out.Op
	}
	out.Op, out.Err = op, err
	return &out
}

// As returns the outermost *Error in err's chain, or one of kind Internal
// that wraps err. Nil stays nil.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: KindOf(err), Message: Redact(err.Error()), Err: err}
}

// KindOf returns the kind of the outermost *Error in err's chain. A deadline
// that passed is Unavailable; anything unclassified is Internal.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable
	default:
		return Internal
	}
}
