package s3

import (
	"maps"
	"slices"
)

// Properties returns the names of the properties that FromProperties reads.
func Properties() []string { return slices.Sorted(maps.Keys(properties())) }
