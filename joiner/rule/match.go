package rule

import "fmt"

// Few training rows match if none of at least noneRows rows match, or less than 1/fewShare of at
// least fewRows rows.
const (
	noneRows = 100
	fewRows  = 10_000
	fewShare = 100
)

// FewMatches reports whether few of the training rows that were looked up match, probably because
// the tables write their keys in different ways: none of at least 100 rows, or less than 1 % of at
// least 10,000. Anti joins and overlays may be meant to match few rows, so for these it is true
// only if no row matches.
func (k Kind) FewMatches(rows, matched int64) bool {
	none := rows >= noneRows && matched == 0
	switch k {
	case Left, Inner, Semi:
		return none || rows >= fewRows && matched < (rows+fewShare-1)/fewShare
	case Anti, Overlay:
		return none
	}
	return false
}

// MatchText describes how many of the training rows that were looked up match: "5 of 7
// training rows match (71.43%)".
func MatchText(rows, matched int64) string {
	if rows == 1 {
		return fmt.Sprintf("%d of 1 training row matches", matched)
	}
	return fmt.Sprintf("%d of %d training rows match (%.4g%%)", matched, rows, 100*float64(matched)/float64(max(rows, 1)))
}
