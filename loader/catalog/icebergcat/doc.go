// Package icebergcat reads the metadata of Apache Iceberg tables. It and its own packages
// are the only ones that know iceberg-go. A Locator for each type of catalog finds the
// metadata of a table; package tablestore opens its files.
//
// Reading changes nothing, except that Tag commits a tag if asked to. Commit, Create, Move,
// Publish and Undo change tables of the namespaces that the catalog may write to (see package
// commit), while others write to them too.
//
// Every call loads the table from the catalog again; no context and no table is kept.
// Manifests and manifest lists are immutable. With a cache they are remembered by table
// and location, so that listing a table after a commit reads only what the commit wrote.
//
// Files lists a snapshot only if this version can read all of it correctly. Formats other
// than Parquet and encryption are refused with the table, the file and a remedy. Whatever
// only the footer of a file shows (that it lacks a column, or has it with an impossible
// type) is checked when the file is opened.
package icebergcat
