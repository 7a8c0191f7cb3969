// Package icebergcat opens catalogs of Apache Iceberg tables. Each type of catalog has a Locator,
// which finds the metadata of a table. Package tablestore opens the files of tables. The packages
// below icebergcat read the metadata (metadata, metafile, column), list files (listing), and change
// tables (commits, revision, manifests, tags). No other packages use iceberg-go.
//
// Reading a table changes nothing. Tag commits a tag. The methods of TableWriter, such as Commit
// and Create, change tables, but only in the namespaces that Options.WriteNamespaces lists.
package icebergcat
