package chunkcache

import "hash/maphash"

// ghosts records which columns were read lately, up to a number.
type ghosts struct {
	seed  maphash.Seed
	place map[uint64]int // by hash: its index in ring
	ring  []ghost
	next  int
}

// ghost is a note about a column. The zero value is an empty place.
type ghost struct {
	hash uint64
	rows int64 // rows read so far; rows that were read twice count twice
}

const (
	bytesPerGhost        = 16 << 10 // only few columns of a row group are smaller
	minGhosts, maxGhosts = 1 << 10, 1 << 16
)

func newGhosts(limit int64) ghosts {
	n := int(min(max(limit/bytesPerGhost, minGhosts), maxGhosts))
	return ghosts{seed: maphash.MakeSeed(), place: map[uint64]int{}, ring: make([]ghost, n)}
}

func (g *ghosts) hash(of ChunkID) uint64 { return max(maphash.Comparable(g.seed, of), 1) }

// read records that rows of a column are being read. It reports whether at least as many rows as
// the column holds had been read before.
func (g *ghosts) read(of ChunkID, rows, all int64) bool {
	h := g.hash(of)
	if at, ok := g.place[h]; ok {
		before := g.ring[at].rows
		g.ring[at].rows += rows
		return before >= all
	}
	if old := g.ring[g.next].hash; old != 0 {
		delete(g.place, old)
	}
	g.ring[g.next], g.place[h] = ghost{hash: h, rows: rows}, g.next
	g.next = (g.next + 1) % len(g.ring)
	return false
}

// remove removes a column.
func (g *ghosts) remove(of ChunkID) {
	h := g.hash(of)
	if at, ok := g.place[h]; ok {
		g.ring[at] = ghost{}
		delete(g.place, h)
	}
}
