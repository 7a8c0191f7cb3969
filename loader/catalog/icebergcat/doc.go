// Package icebergcat reads the metadata of Apache Iceberg tables: it is the only
// package that knows iceberg-go. Where the metadata of a table lies, and what opens its
// files, is for a Locator to say, of which each type of catalog has one.
//
// It reads, and changes nothing but what Tag is asked for: catalogs and tables stay as
// they are while their owners write to them.
//
// Every call asks the catalog anew and keeps nothing: no context, no handle of a table.
// Manifests and manifest lists are
// immutable: a cache that is given remembers them by table and location, so that a
// table is listed again after a commit by what that wrote.
//
// Files lists a snapshot only if this version can read all of it rightly.
// Formats other than Parquet and encryption are refused with the table, the file and a
// remedy. What the footer of a file alone can say (a column that the file lacks, a type
// that a column cannot have had) is checked by whoever opens it.
package icebergcat
