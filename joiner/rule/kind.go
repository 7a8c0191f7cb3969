package rule

import "cmp"

// Kind is the kind of a join: which training rows it keeps, and what it adds to them.
type Kind string

// The kinds of join.
const (
	Left    Kind = ""        // every training row; the default
	Inner   Kind = "inner"   // rows with a match
	Semi    Kind = "semi"    // rows with a match, each once, without columns of the staging table
	Anti    Kind = "anti"    // rows without a match, without columns of the staging table
	Overlay Kind = "overlay" // every training row; columns of a match replace training columns of the same name
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Left, Inner, Semi, Anti, Overlay} }

// String returns the kind as datasets spell it.
func (k Kind) String() string { return cmp.Or(string(k), "left") }

// Article returns the kind with its article, as in "an inner".
func (k Kind) Article() string {
	switch k {
	case Inner, Anti, Overlay:
		return "an " + k.String()
	case Left, Semi:
		return "a " + k.String()
	}
	return "an unknown"
}

// Keeps reports whether the result has the training rows that matched, or those
// that did not.
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

// KeepsAll reports whether the result has every training row.
func (k Kind) KeepsAll() bool { return k.Keeps(true) && k.Keeps(false) }

// Adds reports whether the result has values of the staging table, so that it
// matters which of several staging rows is chosen.
func (k Kind) Adds() bool {
	switch k {
	case Left, Inner, Overlay:
		return true
	case Semi, Anti:
		return false
	}
	return false
}

// Fills reports whether a training row without a match gets values for the staging
// table's columns: nulls, or defaults.
func (k Kind) Fills() bool { return k.Adds() && k.Keeps(false) }

// Replaces reports whether columns of a match replace training columns of the same
// name.
func (k Kind) Replaces() bool {
	switch k {
	case Overlay:
		return true
	case Left, Inner, Semi, Anti:
		return false
	}
	return false
}

// MarshalText returns the bytes of String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), Check(k, Kinds()) }
