//go:build !race && !share

package promote_test

// fewWorlds is the number of random worlds in the short form.
const fewWorlds = 16
