// Package icebergcat opens catalogs of Apache Iceberg tables. A Locator for each type of catalog finds
// the metadata of a table; package tablestore opens its files. The packages below it read the metadata
// (metadata, metafile, column), list files (listing), and change tables (commits, revision, manifests,
// tags). They are the only ones that know iceberg-go.
//
// Reading changes nothing, except that Tag commits a tag if asked to. Commit, Create, Move,
// Publish and Undo change tables of the namespaces that the catalog may write to.
package icebergcat
