package fault

import "strings"

// Nearest returns the candidate closest to name by edit distance, ignoring
// case, or "" if none is close enough to be a slip of the hand (at most a
// third of the longer name, and at least one edit is always forgiven). Where none is, it
// is the only candidate of which one is a part of the other, from its beginning or to its
// end: "imp" of "imp_id", "warn" of "warning". Parts of fewer than three letters mean
// nothing.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", -1
	for _, c := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(c))
		limit := max(1, max(len(name), len(c))/3)
		if d <= limit && (bestDistance < 0 || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	if best != "" {
		return best
	}
	var parts []string
	for _, c := range candidates {
		if isPart(strings.ToLower(name), strings.ToLower(c)) || isPart(strings.ToLower(c), strings.ToLower(name)) {
			parts = append(parts, c)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return ""
}

// shortestPart is the fewest letters of a name that may stand for it.
const shortestPart = 3

func isPart(part, of string) bool {
	return len(part) >= shortestPart && (strings.HasPrefix(of, part) || strings.HasSuffix(of, part))
}

// distance is the Damerau-Levenshtein distance (adjacent transpositions count
// once), over bytes: names are ASCII in practice.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
