// Package buckettest has the bucket transform as the Iceberg specification defines it, for tests of code
// that computes it for whole columns.
package buckettest

import "math"

// Of returns the bucket of n that a hash falls into. n must be positive.
func Of(hash int32, n int) int { return int(hash&math.MaxInt32) % n }
