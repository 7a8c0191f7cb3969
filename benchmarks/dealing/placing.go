package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// hashed returns a number that depends only on a text.
func hashed(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8])
}

// placed returns the replica of each shard of a dataset: the replica with the highest hash for the shard. If slots is positive, a
// replica that has so many shards refuses more, and the shard goes to the replica with the next hash.
func placed(dataset string, shards, replicas, slots int) []int {
	taken, of := make([]int, replicas), make([]int, shards)
	for shard := range of {
		best, highest := -1, uint64(0)
		for r := range replicas {
			h := hashed(fmt.Sprintf("replica-%d\x00%s\x00%d\x00%d", r, dataset, shard, shards))
			if (slots <= 0 || taken[r] < slots) && (best < 0 || h > highest) {
				best, highest = r, h
			}
		}
		of[shard] = best
		taken[best]++
	}
	return of
}
