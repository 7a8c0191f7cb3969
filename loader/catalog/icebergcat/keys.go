package icebergcat

import (
	"context"
	"time"
)

// Keys says with which keys a bucket is reached now. It is asked again when they have
// expired, or when storage says so, and is safe for concurrent use.
type Keys func(ctx context.Context) (Key, error)

// Key is what reaches a bucket.
type Key struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	// Expires is when it has to be asked for again; the zero time is never.
	Expires time.Time
}
