//go:build !race

package warehouse_test

// few is how many worlds the short form tries.
const few = 300
