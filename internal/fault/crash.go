package fault

import "runtime/debug"

// Crash is the cause of an error that was a panic. It has the stack for the
// log; clients do not see it.
type Crash struct{ Stack []byte }

// Error implements error.
func (Crash) Error() string { return "a panic" }

// Crashed makes an Internal error of a panic's value, with what broke down. It
// is called by who recovered, whose stack is still that of the panic.
func Crashed(what string, value any) *Error {
	e := New(Internal, "%s broke down: %v", what, value)
	e.Err = Crash{debug.Stack()}
	return e.WithRemedy("this is a bug in the server; its log has the details")
}
