// Package revision makes new metadata of a table from its current metadata and a change: the text of
// a metadata file, or the request of a REST catalog. It maps values to values. Everything that a
// change does not concern stays as it was written, even if this version does not know it.
package revision
