// Package metadata finds and reads the metadata of Iceberg tables. A Source asks a Locator where the
// metadata of a table is, reads it within a memory limit, and remembers immutable files. Loaded is
// the result: the metadata of one table, parsed, with the questions that it answers about snapshots,
// branches, schemas and name mappings.
//
// Reading changes nothing. No context and no table is kept, except in the caches that a Source is given.
package metadata
