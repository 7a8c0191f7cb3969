package icebergcat

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/catalog/restcat"
)

// Properties are the names of what a catalog of a type reads of its own properties,
// beside those of storage. One that ends in a dot begins those of any number.
func Properties(kind string) []string {
	switch kind {
	case typeREST:
		return restcat.Properties()
	case typeDirectory:
		return []string{tablesPrefix}
	}
	return nil
}

// Reads says whether a catalog of a type reads a property.
func Reads(kind, property string) bool {
	return slices.ContainsFunc(Properties(kind), func(name string) bool {
		return name == property || strings.HasSuffix(name, ".") && strings.HasPrefix(property, name)
	})
}
