package dataset

import "time"

// File is the content of a config file. Server settings are kept as text; the server
// interprets them.
type File struct {
	Catalogs []Catalog // all lists here are in the order of the file
	Datasets []Dataset
	Server   []Setting
}

// Catalog is the configuration of a catalog.
type Catalog struct {
	Name      string // the first part of its tables' names
	Type      string
	URI       string
	Warehouse string
	Stored    string // name of the catalog in the database that stores it; default: Name
	// PinTags is how long tags keep the snapshots that streams read. If it is 0, streams create no
	// tags and so write nothing to the catalog.
	PinTags time.Duration
	// WriteNamespaces are the namespaces whose tables may be changed. If the list is empty, no
	// table may be changed.
	WriteNamespaces []string
	// AllowedPrefixes are the folders that the tables' files may be in. For an empty list, see
	// icebergcat.Options.
	AllowedPrefixes []string
	// StoredSizes is whether the sizes of files are taken from storage instead of manifests.
	StoredSizes bool
	// Properties are all other properties, in the order of the file. The catalog
	// interprets them. Their values may be secret.
	Properties []Property
}

// Property is a property of a catalog. Nested properties have dotted names.
type Property struct {
	Name, Value string
	Line        int // 1-based
}

// Setting is a server setting.
type Setting struct {
	Name   string
	Values []string // one, or the entries of a list
	List   bool
	Line   int // 1-based
}
