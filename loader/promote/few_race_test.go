//go:build race

package promote_test

// fewWorlds is the number of random worlds in the short form: the race detector makes reading them
// several times as slow.
const fewWorlds = 4
