package fault

import "strings"

// Nearest returns the candidate closest to name by edit distance, ignoring case, if it is close
// enough to be a typo: at most one edit, or as many as a third of the longer name. If no candidate
// is that close, Nearest looks for a candidate that is a prefix or suffix of name, or has name as a
// prefix or suffix, of at least three letters, such as "imp_id" for "imp" or "warning" for "warn".
// It returns this candidate if it is the only one, and "" otherwise.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", -1
	lower := strings.ToLower(name)
	for _, c := range candidates {
		limit := max(1, max(len(name), len(c))/3)
		if far(lower, strings.ToLower(c), limit) {
			continue
		}
		d := distance(lower, strings.ToLower(c))
		if d <= limit && (bestDistance < 0 || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	if best != "" {
		return best
	}
	var affixed []string
	for _, c := range candidates {
		if isAffix(lower, strings.ToLower(c)) || isAffix(strings.ToLower(c), lower) {
			affixed = append(affixed, c)
		}
	}
	if len(affixed) == 1 {
		return affixed[0]
	}
	return ""
}

// far reports whether the lengths of two texts alone show that their distance is over a limit. Hostile clients send long names, whose
// distance takes time that grows with both lengths.
func far(a, b string, limit int) bool { return max(len(a)-len(b), len(b)-len(a)) > limit }

// minAffix is the minimum length of a prefix or suffix that Nearest matches.
const minAffix = 3

func isAffix(affix, of string) bool {
	return len(affix) >= minAffix && (strings.HasPrefix(of, affix) || strings.HasSuffix(of, affix))
}

// distance returns the Damerau-Levenshtein distance (adjacent transpositions
// count once) over bytes: names are ASCII in practice.
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
