package icebergcat

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/catalog/restcat"
)

// Properties returns the names of the properties that a catalog of a type reads, without
// those of storage. A name that ends in a dot stands for all properties that begin with it.
func Properties(kind string) []string {
	switch kind {
	case typeREST:
		return restcat.Properties()
	case typeDirectory:
		return []string{tablesPrefix}
	}
	return nil
}

// Reads reports whether a catalog of a type reads a property.
func Reads(kind, property string) bool {
	return slices.ContainsFunc(Properties(kind), func(name string) bool {
		return name == property || strings.HasSuffix(name, ".") && strings.HasPrefix(property, name)
	})
}
