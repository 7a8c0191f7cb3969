// Package listing lists the files of a table's snapshots from its manifest lists and manifests. It
// lists a snapshot only if this version can read all of it correctly: for file formats other than
// Parquet, and for encryption, it returns an error that names the table, the file and a remedy. It
// cannot check what only the footer of a file shows: that the file lacks a column, or has a column
// with an impossible type. This is checked when the file is opened.
//
// Manifests and manifest lists are immutable. They are cached by table and location, so that
// listing a table after a commit reads only the files that the commit wrote.
package listing
