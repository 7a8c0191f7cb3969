//go:build race

package icebergcat_test

// racingChanges is smaller in tests that look for data races, which are slow.
const racingChanges = 4
