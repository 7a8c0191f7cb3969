package verify

// The kinds of findings, for tests.
const (
	Layout     = badLayout
	Unreadable = unreadable
	Duplicates = duplicateKeys
	Missing    = missingMatches
	MatchRate  = lowMatchRate
)
