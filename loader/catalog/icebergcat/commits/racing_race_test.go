//go:build race || share

package commits_test

// racingChanges is smaller in make test, and with the race detector, which is slow.
const racingChanges = 4
