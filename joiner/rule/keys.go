package rule

// unknown is the text of a value that is none of the words.
const unknown = "unknown"

// Duplicates says what several staging rows of one key mean to a training row
// that asks for the key. A join that adds nothing does not ask which.
type Duplicates int

// What duplicate staging keys mean.
const (
	DuplicatesError Duplicates = iota // an error; the default
	DuplicatesFirst                   // the first of them, in the order of the rule, then in that in which they were written
	DuplicatesLast                    // the last of them
	DuplicatesAll                     // one row of the result for each of them, as SQL has it
)

// AllDuplicates returns all of them.
func AllDuplicates() []Duplicates {
	return []Duplicates{DuplicatesError, DuplicatesFirst, DuplicatesLast, DuplicatesAll}
}

// String returns the word as datasets have it.
func (d Duplicates) String() string {
	switch d {
	case DuplicatesError:
		return "error"
	case DuplicatesFirst:
		return "first"
	case DuplicatesLast:
		return "last"
	case DuplicatesAll:
		return "all"
	}
	return unknown
}

// Fail says whether duplicates that a training row asks for are an error.
func (d Duplicates) Fail() bool {
	switch d {
	case DuplicatesError:
		return true
	case DuplicatesFirst, DuplicatesLast, DuplicatesAll:
		return false
	}
	return true
}

// Multiply says whether a training row stands in the result once for each of
// several staging rows.
func (d Duplicates) Multiply() bool {
	switch d {
	case DuplicatesAll:
		return true
	case DuplicatesError, DuplicatesFirst, DuplicatesLast:
		return false
	}
	return false
}

// Choose says whether one of several staging rows is taken.
func (d Duplicates) Choose() bool { return !d.Fail() && !d.Multiply() }

// TakeLast says whether that is the last of them.
func (d Duplicates) TakeLast() bool {
	switch d {
	case DuplicatesLast:
		return true
	case DuplicatesError, DuplicatesFirst, DuplicatesAll:
		return false
	}
	return false
}

// MarshalText is String.
func (d Duplicates) MarshalText() ([]byte, error) {
	return []byte(d.String()), Check(d, AllDuplicates())
}

// Missing says what a training row without a staging row gets.
type Missing int

// What a missing key means.
const (
	MissingNull    Missing = iota // nulls; the default
	MissingError                  // an error
	MissingDefault                // the dataset's defaults; columns without one are null
)

// AllMissing returns all of them.
func AllMissing() []Missing { return []Missing{MissingNull, MissingError, MissingDefault} }

// String returns the word as datasets have it.
func (m Missing) String() string {
	switch m {
	case MissingNull:
		return "null"
	case MissingError:
		return "error"
	case MissingDefault:
		return "default"
	}
	return unknown
}

// Fail says whether a missing key is an error.
func (m Missing) Fail() bool {
	switch m {
	case MissingError:
		return true
	case MissingNull, MissingDefault:
		return false
	}
	return true
}

// Defaults says whether columns get values that the dataset names.
func (m Missing) Defaults() bool {
	switch m {
	case MissingDefault:
		return true
	case MissingNull, MissingError:
		return false
	}
	return false
}

// MarshalText is String.
func (m Missing) MarshalText() ([]byte, error) { return []byte(m.String()), Check(m, AllMissing()) }

// Nulls says what a null of a matched overlay row does to the training row's
// value.
type Nulls int

// What a null of an overlay does.
const (
	NullsReplace Nulls = iota // the null stands; the default
	NullsKeep                 // the training row's value stays
)

// AllNulls returns all of them.
func AllNulls() []Nulls { return []Nulls{NullsKeep, NullsReplace} }

// String returns the word as datasets have it.
func (n Nulls) String() string {
	switch n {
	case NullsReplace:
		return "replace"
	case NullsKeep:
		return "keep"
	}
	return unknown
}

// Replace says whether a null replaces the training row's value.
func (n Nulls) Replace() bool {
	switch n {
	case NullsReplace:
		return true
	case NullsKeep:
		return false
	}
	return false
}

// MarshalText is String.
func (n Nulls) MarshalText() ([]byte, error) { return []byte(n.String()), Check(n, AllNulls()) }
