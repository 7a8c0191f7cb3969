//go:build race

package commits_test

// racingChanges is smaller in tests that look for data races, which are slow.
const racingChanges = 4
