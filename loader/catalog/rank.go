package catalog

// Chain is the pinned snapshot and its known ancestors. It ranks files without a sequence
// number.
type Chain struct {
	depths map[int64]int // number of steps from the pinned snapshot, by snapshot
	whole  bool          // whether the chain ends at a snapshot without a parent
	parent func(snapshot int64) (int64, bool)
}

// NewChain follows the parents of a snapshot. The function parent returns the parent of a
// snapshot or 0, and false if the snapshot no longer exists.
func NewChain(pinned int64, parent func(snapshot int64) (int64, bool)) Chain {
	c := Chain{depths: map[int64]int{}, parent: parent}
	for at := pinned; ; {
		above, known := parent(at)
		if _, again := c.depths[at]; !known || again {
			return c
		}
		c.depths[at] = len(c.depths)
		if above == 0 {
			c.whole = true
			return c
		}
		at = above
	}
}

// Rank returns the File.Rank of a file that a snapshot added. Some writers delete the parent's id
// from the oldest remaining snapshot when the parent expires, so that the chain looks complete.
// Files of an expired snapshot therefore get BeforeRanks even if the chain looks complete.
func (c Chain) Rank(snapshot int64) int {
	if depth, ok := c.depths[snapshot]; ok {
		return len(c.depths) - depth
	}
	if _, known := c.parent(snapshot); known && c.whole {
		return Unranked
	}
	return BeforeRanks
}
