package icebergcat

import "github.com/penstock/penstock/loader/catalog/restcat"

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
