//go:build race

package fanout_test

// share is the factor by which random cases are reduced under the race detector, which
// makes each case six times as slow and looks for other faults. make test-random runs
// all of them without the detector.
const share = 16
