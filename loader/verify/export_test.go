package verify

// The kinds of findings, which tests look for.
const (
	Layout     = badLayout
	Unreadable = unreadable
	Duplicates = duplicateKeys
	Missing    = missingMatches
	MatchRate  = lowMatchRate
)
