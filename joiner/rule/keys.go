package rule

import "cmp"

// Duplicates says how to handle several staging rows that match a training row. A join that adds no
// columns ignores it.
type Duplicates string

// The ways to handle duplicate staging keys.
const (
	DuplicatesError Duplicates = ""      // an error; the default
	DuplicatesFirst Duplicates = "first" // the first row by the order of the rule; ties are in stored order
	DuplicatesLast  Duplicates = "last"  // the last row in that order
	DuplicatesAll   Duplicates = "all"   // one row of the result for each staging row, as in SQL
)

// AllDuplicates returns all values of Duplicates.
func AllDuplicates() []Duplicates {
	return []Duplicates{DuplicatesError, DuplicatesFirst, DuplicatesLast, DuplicatesAll}
}

// String returns the word as datasets spell it.
func (d Duplicates) String() string { return cmp.Or(string(d), "error") }

// Fail reports whether several matches of a training row are an error.
func (d Duplicates) Fail() bool {
	switch d {
	case DuplicatesError:
		return true
	case DuplicatesFirst, DuplicatesLast, DuplicatesAll:
		return false
	}
	return true
}

// Multiply reports whether the result has a training row once for each of its
// matches.
func (d Duplicates) Multiply() bool {
	switch d {
	case DuplicatesAll:
		return true
	case DuplicatesError, DuplicatesFirst, DuplicatesLast:
		return false
	}
	return false
}

// Choose reports whether one of several matches is chosen.
func (d Duplicates) Choose() bool { return !d.Fail() && !d.Multiply() }

// TakeLast reports whether the last of several matches is chosen.
func (d Duplicates) TakeLast() bool {
	switch d {
	case DuplicatesLast:
		return true
	case DuplicatesError, DuplicatesFirst, DuplicatesAll:
		return false
	}
	return false
}

// MarshalText returns the bytes of String.
func (d Duplicates) MarshalText() ([]byte, error) {
	return []byte(d.String()), Check(d, AllDuplicates())
}

// Missing says how to handle a training row without a match.
type Missing string

// The ways to handle a missing key.
const (
	MissingNull    Missing = ""        // nulls; the default
	MissingError   Missing = "error"   // an error
	MissingDefault Missing = "default" // the dataset's defaults; null in columns without one
)

// AllMissing returns all values of Missing.
func AllMissing() []Missing { return []Missing{MissingNull, MissingError, MissingDefault} }

// String returns the word as datasets spell it.
func (m Missing) String() string { return cmp.Or(string(m), "null") }

// Fail reports whether a missing key is an error.
func (m Missing) Fail() bool {
	switch m {
	case MissingError:
		return true
	case MissingNull, MissingDefault:
		return false
	}
	return true
}

// Defaults reports whether columns get the dataset's defaults.
func (m Missing) Defaults() bool {
	switch m {
	case MissingDefault:
		return true
	case MissingNull, MissingError:
		return false
	}
	return false
}

// MarshalText returns the bytes of String.
func (m Missing) MarshalText() ([]byte, error) { return []byte(m.String()), Check(m, AllMissing()) }

// Nulls says whether a null of a matching overlay row replaces the training row's value.
type Nulls string

// The ways to handle a null of an overlay.
const (
	NullsReplace Nulls = ""     // the null replaces the training row's value; the default
	NullsKeep    Nulls = "keep" // the training row keeps its value
)

// AllNulls returns all values of Nulls.
func AllNulls() []Nulls { return []Nulls{NullsKeep, NullsReplace} }

// String returns the word as datasets spell it.
func (n Nulls) String() string { return cmp.Or(string(n), "replace") }

// Replace reports whether a null replaces the training row's value.
func (n Nulls) Replace() bool {
	switch n {
	case NullsReplace:
		return true
	case NullsKeep:
		return false
	}
	return false
}

// MarshalText returns the bytes of String.
func (n Nulls) MarshalText() ([]byte, error) { return []byte(n.String()), Check(n, AllNulls()) }
