//go:build !race && !share

package loader_test

import "testing"

// share is the factor by which random cases are reduced.
const share = 1

// onlyWhole skips a test in a build that tries a share.
func onlyWhole(*testing.T) {}
