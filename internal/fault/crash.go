package fault

import "runtime/debug"

// Crash is the cause of an error that reports a panic. It keeps the stack for the log; clients do
// not see the stack.
type Crash struct{ Stack []byte }

// Error implements error.
func (Crash) Error() string { return "a panic" }

// Crashed returns an Internal error for a recovered panic. what names the component that panicked.
// Call it in the deferred function that recovered, where the stack of the panic is still available.
func Crashed(what string, value any) *Error {
	e := New(Internal, "%s panicked: %v", what, value)
	e.Err = Crash{debug.Stack()}
	return e.WithRemedy("this is a bug in the server; its log has the details")
}
