//go:build race || share

package promote_test

// fewWorlds is the number of random worlds in the short form of make test, and with the race
// detector, which makes reading them several times as slow. make test-random tries more.
const fewWorlds = 4
