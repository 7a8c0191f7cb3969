package chunkcache

import "hash/maphash"

// ghosts remembers which columns were read lately, up to a number.
type ghosts struct {
	seed  maphash.Seed
	place map[uint64]int // by hash: its index in ring
	ring  []uint64       // 0: none
	next  int
}

const (
	bytesPerGhost        = 16 << 10 // few columns of a row group are smaller
	minGhosts, maxGhosts = 1 << 10, 1 << 16
)

func newGhosts(limit int64) ghosts {
	n := int(min(max(limit/bytesPerGhost, minGhosts), maxGhosts))
	return ghosts{seed: maphash.MakeSeed(), place: map[uint64]int{}, ring: make([]uint64, n)}
}

func (g *ghosts) hash(of ChunkID) uint64 { return max(maphash.Comparable(g.seed, of), 1) }

// seen reports whether a column was read before, and remembers that it was.
func (g *ghosts) seen(of ChunkID) bool {
	h := g.hash(of)
	if _, ok := g.place[h]; ok {
		return true
	}
	if old := g.ring[g.next]; old != 0 {
		delete(g.place, old)
	}
	g.ring[g.next], g.place[h] = h, g.next
	g.next = (g.next + 1) % len(g.ring)
	return false
}

// remove forgets a column.
func (g *ghosts) remove(of ChunkID) {
	h := g.hash(of)
	if at, ok := g.place[h]; ok {
		g.ring[at] = 0
		delete(g.place, h)
	}
}
