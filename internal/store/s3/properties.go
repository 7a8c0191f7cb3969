package s3

import (
	"maps"
	"slices"
)

// Properties are the names of all that FromProperties reads.
func Properties() []string { return slices.Sorted(maps.Keys(properties())) }
