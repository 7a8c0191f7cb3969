//go:build !race

package icebergcat_test

// racingChanges is the number of changes that each process of TestCommitsThatRace commits.
const racingChanges = 20
