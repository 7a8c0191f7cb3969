// Package dataset defines the values that describe a read: a Dataset (a named join), a
// Query (what one client wants to read), a Pin (the snapshots), a Shard (the part) and a
// Cursor (the position). A File holds the catalogs, datasets and server settings of a
// config file.
//
// They are plain values with a YAML and a JSON form. Both formats are parsed into the
// same tree, which is decoded by tables of known fields. Decoding is strict. An unknown
// field is a fault that suggests the nearest known field. Fields and values that this
// version does not support are rejected by name, as are repeated fields. All faults are
// reported in one Invalid error, each with its path and, in YAML, its line. A null field
// counts as omitted. Decoded values have their defaults set. The package does not access
// tables, files or the network, so it does not check the names of columns and tables, or
// the types in filters.
//
// Encoding is canonical. Fields are in a fixed order, and datasets and queries omit
// fields at their defaults. Equal values therefore have equal bytes, and decoding returns
// the original value.
package dataset
