// Package dataset defines the values that describe a read: a Dataset (a named join), a
// Query (what one client reads), a Pin (the snapshots), a Shard (the part) and a
// Cursor (the position). A File holds the catalogs, datasets and server settings of a
// config file. Package decode decodes them from YAML and JSON.
//
// The package has the checks that need no tables, files or network, and the defaults. It
// merges cursors, and lists the differences between plans.
//
// Encoding is canonical. Fields are in a fixed order, and datasets and queries omit
// fields at their defaults. Equal values therefore have equal bytes, and decoding returns
// the original value. Digests are hashes of canonical texts.
package dataset
