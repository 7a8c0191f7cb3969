// Package identity holds who makes a call: the subject that the call's credentials name, and its other claims. Shares of slots and
// memory, the policy and the log go by it.
package identity

// Caller is who makes a call. The zero value is a caller without credentials.
type Caller struct {
	Subject string
	// Claims are the values of the claims of a JWT that are texts or lists of texts; nil for other credentials.
	Claims map[string][]string
}
