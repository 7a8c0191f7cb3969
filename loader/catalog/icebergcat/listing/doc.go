// Package listing lists the files of a table's snapshots from its manifest lists and manifests. It
// lists a snapshot only if this version can read all of it correctly: formats other than Parquet and
// encryption are refused with the table, the file and a remedy. Whatever only the footer of a file
// shows (that it lacks a column, or has it with an impossible type) is checked when the file is opened.
//
// Manifests and manifest lists are immutable. They are remembered by table and location, so that
// listing a table after a commit reads only what the commit wrote.
package listing
