package catalog

// Chain is the pinned snapshot and its parents, as far as they are known. It
// ranks the files that have no sequence number.
type Chain struct {
	places map[int64]int // by snapshot, counted from the pinned one, 0
	whole  bool          // down to a snapshot without a parent
	parent func(snapshot int64) (int64, bool)
}

// NewChain follows the parents of a snapshot. The function returns the parent
// of one, 0 if it has none, and false if the snapshot is not known any more.
func NewChain(pinned int64, parent func(snapshot int64) (int64, bool)) Chain {
	c := Chain{places: map[int64]int{}, parent: parent}
	for at := pinned; ; {
		above, known := parent(at)
		if _, again := c.places[at]; !known || again {
			return c
		}
		c.places[at] = len(c.places)
		if above == 0 {
			c.whole = true
			return c
		}
		at = above
	}
}

// Rank is the File.Rank of a file that a snapshot added. Some writers let the
// oldest snapshot that is left forget its parent, so that the chain looks whole:
// a snapshot that has expired was before it all the same.
func (c Chain) Rank(snapshot int64) int {
	if place, ok := c.places[snapshot]; ok {
		return len(c.places) - place
	}
	if _, known := c.parent(snapshot); known && c.whole {
		return Unranked
	}
	return BeforeRanks
}
