// Package rule defines the words that rule a join: its kind, what duplicate and
// missing keys mean, what nulls of an overlay do, and how keys are searched.
//
// Datasets are written in these words and the joiner acts on them, so each list
// exists once. Code outside of this package does not compare words; it calls their
// methods. A word that is added or removed is therefore decided on here, where the
// linter checks that each switch covers all of them.
//
// The zero value of each type is its default. A value that is on no list is an
// error when it is parsed (Parse) or used (Check).
package rule

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// Word is one of the types of this package.
type Word interface {
	~string
	fmt.Stringer
}

// Parse returns the word with a text; a text that is none of them is Invalid.
func Parse[W Word](text string, all []W) (W, error) {
	i := slices.IndexFunc(all, func(w W) bool { return w.String() == text })
	if i < 0 {
		return "", fault.New(fault.Invalid, "unknown value %q", text)
	}
	return all[i], nil
}

// Check returns Internal for a value that is none of the words.
func Check[W Word](w W, all []W) error {
	if slices.Contains(all, w) {
		return nil
	}
	return fault.New(fault.Internal, "a join has the rule %T(%q), which does not exist", w, string(w))
}
