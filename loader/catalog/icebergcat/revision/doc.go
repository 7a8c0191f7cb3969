// Package revision makes the new metadata of a table from its current metadata and a change. The
// result is the text of a metadata file, or a request for a REST catalog. The package does no I/O.
// Everything in the metadata that the change does not concern keeps its text, even if this version
// does not know what it means.
package revision
