package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
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
			h := scored(dataset, shard, shards, r)
			if (slots <= 0 || taken[r] < slots) && (best < 0 || h > highest) {
				best, highest = r, h
			}
		}
		of[shard] = best
		taken[best]++
	}
	return of
}

// scored returns the hash of a shard of a dataset and a replica.
func scored(dataset string, shard, shards, replica int) uint64 {
	return hashed(fmt.Sprintf("replica-%d\x00%s\x00%d\x00%d", replica, dataset, shard, shards))
}

// dealt returns the replica of each shard of a dataset as clients choose it (python/src/penstock/addresses.py): pairs of shard and
// replica are taken from the highest hash down, if the shard has no replica yet, and the replica has less than its part.
func dealt(dataset string, shards int, replicas []int) []int {
	type pair struct {
		score          uint64
		shard, replica int
	}
	pairs := make([]pair, 0, shards*len(replicas))
	for shard := range shards {
		for _, r := range replicas {
			pairs = append(pairs, pair{scored(dataset, shard, shards, r), shard, r})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(b.score, a.score) })
	part, taken, of := (shards+len(replicas)-1)/len(replicas), map[int]int{}, make([]int, shards)
	for i := range of {
		of[i] = -1
	}
	for _, p := range pairs {
		if of[p.shard] < 0 && taken[p.replica] < part {
			of[p.shard] = p.replica
			taken[p.replica]++
		}
	}
	return of
}
