// Package decode decodes the values of package dataset from text: queries and cursors from
// JSON, datasets and config files from YAML.
//
// Both formats are parsed into the same tree, which is decoded by tables of known fields.
// An unknown field is a fault that suggests the nearest known field. Fields and values
// that this version does not support are rejected by name, as are repeated fields. A null
// field counts as omitted. All faults are reported in one Invalid error, each with its
// path and, in YAML, its line. Decoded values have their defaults set, and their fields
// can be combined.
//
// The size, nesting and number of values of a text are limited, so that malicious input
// is rejected at small cost. The package does not access tables, files or the network, so
// it does not check the names of columns and tables, or the types in filters.
//
// Decoding the canonical text of a value returns the value with its defaults set.
package decode
