package rule

// Kind says which training rows a staging table keeps, and what it adds.
type Kind int

// The kinds of join.
const (
	Left    Kind = iota // every training row; the default
	Inner               // those that match
	Semi                // those that match, each once, without columns of the staging table
	Anti                // those that do not match, without columns of the staging table
	Overlay             // every training row; columns of a match replace training columns of their names
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{Left, Inner, Semi, Anti, Overlay} }

// String returns the kind as datasets have it.
func (k Kind) String() string {
	switch k {
	case Left:
		return "left"
	case Inner:
		return "inner"
	case Semi:
		return "semi"
	case Anti:
		return "anti"
	case Overlay:
		return "overlay"
	}
	return unknown
}

// Article returns the kind with its article, as in "an inner".
func (k Kind) Article() string {
	switch k {
	case Inner, Anti, Overlay:
		return "an " + k.String()
	case Left, Semi:
		return "a " + k.String()
	}
	return unknown
}

// Keeps says whether a training row stays that matched, or did not.
func (k Kind) Keeps(matched bool) bool {
	switch k {
	case Left, Overlay:
		return true
	case Inner, Semi:
		return matched
	case Anti:
		return !matched
	}
	return false
}

// KeepsAll says whether every training row stays.
func (k Kind) KeepsAll() bool { return k.Keeps(true) && k.Keeps(false) }

// Adds says whether rows of the staging table are shown, so that it matters
// which one of several is.
func (k Kind) Adds() bool {
	switch k {
	case Left, Inner, Overlay:
		return true
	case Semi, Anti:
		return false
	}
	return false
}

// Fills says whether a training row without a match is shown with values for the
// staging table's columns: nulls, or defaults.
func (k Kind) Fills() bool { return k.Adds() && k.Keeps(false) }

// Replaces says whether columns of a match replace training columns of their
// names.
func (k Kind) Replaces() bool {
	switch k {
	case Overlay:
		return true
	case Left, Inner, Semi, Anti:
		return false
	}
	return false
}

// MarshalText is String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), Check(k, Kinds()) }
