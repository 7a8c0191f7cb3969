// Package metadata finds and reads the metadata of Iceberg tables. A Source asks a Locator where
// the metadata of a table is, reads the metadata within a memory limit, and caches files that never
// change. The result is a Loaded: the parsed metadata of one table, with methods that look up
// snapshots, branches, schemas and name mappings.
//
// Reading changes nothing. The package keeps no contexts, and keeps tables only in the caches of a
// Source.
package metadata
