//go:build !race && !share

package parquet_test

import "testing"

// share divides the number of random cases and of damaged bits.
const share = 1

// onlyWhole skips a test in a build that tries a share.
func onlyWhole(*testing.T) {}
