// Package fault defines the kinds of failure that Penstock reports.
//
// Every error that reaches a user is or wraps an *Error. It has the operation and its subject, a
// message that says what went wrong, and a remedy that says what the user can do. Package flight
// maps kinds to the wire, in one place. No code makes decisions based on the text of an error.
// Errors of other libraries count as Internal unless they were classified.
//
// Errors contain no passwords. Texts are redacted when an error is created and again when it is
// rendered.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind classifies a failure by its cause and by what the client can do. The set
// is closed: each kind is one gRPC code and one Python exception.
type Kind int

// The kinds of failure.
const (
	Internal        Kind = iota // a bug in Penstock
	Invalid                     // the request is wrong; Faults lists how
	NotFound                    // a dataset, table, ref, snapshot or file does not exist
	Unauthenticated             // credentials are missing or unreadable
	Forbidden                   // the client is known, but not allowed
	Expired                     // a ticket or snapshot is gone; plan again
	Conflict                    // another writer or process was first
	Exhausted                   // a limit is reached; try later or with less
	Corrupt                     // data contradicts itself; the error names the file
	Unavailable                 // storage or a catalog does not respond
)

var kindNames = [...]string{ //nolint:gochecknoglobals // a constant table; Go has no constant arrays
	"internal", "invalid", "not found", "unauthenticated", "forbidden",
	"expired", "conflict", "exhausted", "corrupt", "unavailable",
}

// String returns the kind's name, as used in error details on the wire.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return kindNames[Internal]
	}
	return kindNames[k]
}

// Field is one fault of a request or a config file.
type Field struct {
	Field    string `json:"field"`              // path of the field, such as "staging[0].key"
	Position int    `json:"position,omitempty"` // 1-based position in the field's text; 0 except for filters
	Message  string `json:"message"`
	Nearest  string `json:"nearest,omitempty"` // the known name nearest to an unknown one
	Line     int    `json:"-"`                 // 1-based line of a config file; 0: not in a file
}

// String renders the fault as a message for the user.
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

// Error is a failure with its kind and details. Only Kind and Message are always
// set. Treat values as immutable once returned.
type Error struct {
	Kind       Kind
	Op         string // operation and subject: "read bucket 7 of features.history@8812"
	Message    string
	Remedy     string        // what the user can do
	Faults     []Field       // for Invalid: every fault found, not only the first
	Table      string        // the table that was read
	File       string        // the file that was read
	RowGroup   *int          // row group of File, if known
	RetryAfter time.Duration // for Exhausted and Unavailable: when to try again; 0: unknown
	Differs    []string      // for a cursor or pin that does not fit: the differences
	Err        error         // the cause; may be nil
}

// New returns an error of a kind with a formatted message. The operand of a %w
// verb becomes the cause.
func New(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: Redact(err.Error()), Err: errors.Unwrap(err)}
}

// InvalidField returns an Invalid error about one field.
func InvalidField(field, format string, args ...any) *Error {
	f := Field{Field: field, Message: fmt.Sprintf(format, args...)}.redacted()
	return &Error{Kind: Invalid, Message: f.String(), Faults: []Field{f}}
}

// Fields returns one Invalid error with all faults, or nil if there are none.
// Its type is error, not *Error, so that nil stays nil.
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

// Together combines errors into one error with the kind of the first.
func Together(failures []error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	e := &Error{Kind: KindOf(failures[0]), Message: errors.Join(failures...).Error(), Err: errors.Join(failures...)}
	for _, f := range failures {
		e.Faults = append(e.Faults, Field{Message: f.Error()})
	}
	return e
}

// WithRemedy sets what the user can do, and returns the receiver.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	e.Remedy = Redact(fmt.Sprintf(format, args...))
	return e
}

// In sets the table and file that the failure is about, and returns the receiver.
func (e *Error) In(table, file string) *Error {
	e.Table, e.File = Redact(table), Redact(file)
	return e
}

// InRowGroup sets the row group of File, and returns the receiver.
func (e *Error) InRowGroup(n int) *Error {
	e.RowGroup = &n
	return e
}

// Error renders operation, message, file and remedy in one line.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Cause()
	}
	return Redact(e.Cause() + "; " + e.Remedy)
}

// Cause renders operation, message and file in one line, for texts that have the remedy elsewhere.
func (e *Error) Cause() string {
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
	return Redact(b.String())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Op adds an operation and its subject to an error, and keeps the error's kind and details. It
// returns nil for nil. errors.Is still finds context errors.
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

// As returns the outermost *Error in err's chain. If there is none, it returns an *Error that wraps
// err and has the kind that KindOf returns. It returns nil for nil.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: KindOf(err), Message: Redact(err.Error()), Err: err}
}

// KindOf returns the kind of the outermost *Error in err's chain. An expired
// deadline is Unavailable; anything unclassified is Internal.
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
