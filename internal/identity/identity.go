// Package identity holds the caller of a call: the subject that the call's credentials name, and its other claims.
//
// The server puts it into the context of each call that it admits. Shares of slots and memory, and the log, take it from
// there. A context without a subject is that of a server without credentials, or of a call that needs none.
package identity

import "context"

// Caller is who makes a call. The zero value is a caller without credentials.
type Caller struct {
	Subject string
	// Claims are the values of the claims of a JWT that are texts or lists of texts; nil for other credentials.
	Claims map[string][]string
}

// key is the key of a context's caller.
type key struct{}

// With returns a context with a caller, whose subject is not empty.
func With(ctx context.Context, who Caller) context.Context {
	return context.WithValue(ctx, key{}, who)
}

// Of returns the subject of a context, and whether it has one.
func Of(ctx context.Context) (subject string, known bool) {
	who, known := ctx.Value(key{}).(Caller)
	return who.Subject, known
}

// CallerOf returns the caller of a context; the zero Caller if it has none.
func CallerOf(ctx context.Context) Caller {
	who, _ := ctx.Value(key{}).(Caller)
	return who
}
