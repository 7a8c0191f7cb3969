// Package identity holds who makes a call: the subject that the call's credentials name.
//
// The server puts it into the context of each call that it admits. Shares of slots and memory, and the log, take it from
// there. A context without a subject is that of a server without credentials, or of a call that needs none.
package identity

import "context"

// key is the key of a context's subject.
type key struct{}

// With returns a context with a subject, which is not empty.
func With(ctx context.Context, subject string) context.Context {
	return context.WithValue(ctx, key{}, subject)
}

// Of returns the subject of a context, and whether it has one.
func Of(ctx context.Context) (subject string, known bool) {
	subject, known = ctx.Value(key{}).(string)
	return subject, known
}
