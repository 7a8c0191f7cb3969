//go:build !race && !share

package commits_test

// racingChanges is the number of changes that each process of TestCommitsThatRace commits.
const racingChanges = 20
