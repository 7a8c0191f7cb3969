// Package rule has the words that a join is ruled by: which kind of join it is,
// what duplicate and missing keys mean, what nulls of an overlay do, how keys are
// searched.
//
// Datasets are written in them and the joiner acts on them: there is one list of
// each. Outside of this package nobody compares with a word; one asks what the
// word means. So a word that is added or taken away is decided about here, where
// the linter sees that each function decides about all of them. The zero value of
// each type is its default, and a value that no list has is an error when it is
// read (Parse) or used (Check).
package rule

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// Word is one of the types of this package.
type Word interface {
	Kind | Duplicates | Missing | Nulls | Strategy
	fmt.Stringer
}

// Parse finds the one of some words that a text is; another text is Invalid.
func Parse[W Word](text string, all []W) (W, error) {
	i := slices.IndexFunc(all, func(w W) bool { return w.String() == text })
	if i < 0 {
		return 0, fault.New(fault.Invalid, "unknown value %q", text)
	}
	return all[i], nil
}

// Check is Internal for a value that is none of the words.
func Check[W Word](w W, all []W) error {
	if slices.Contains(all, w) {
		return nil
	}
	return fault.New(fault.Internal, "a join has the rule %T(%d), which does not exist", w, w)
}
