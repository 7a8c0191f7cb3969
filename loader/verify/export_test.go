package verify

// The kinds of findings, for tests.
const (
	Layout     = badLayout
	Unreadable = unreadable
	Duplicates = duplicateKeys
	Missing    = missingMatches
	MatchRate  = lowMatchRate
	FewMatches = fewMatches
	Spelling   = otherSpelling
	Checksums  = noChecksums
)

// The grades of findings, for tests.
const (
	Stream = breaksStream
	Rule   = breaksRule
	Note   = worthKnowing
)

// DifferenceOf is how two values differ, for tests.
var DifferenceOf = differenceOf

// Respelled reports whether a value is another spelling of another one, for tests.
var Respelled = respelled
