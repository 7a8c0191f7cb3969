// Package deletes applies position deletes, deletion vectors and equality deletes to the
// rows of data files.
//
// A Pool loads each delete file, or group of equality deletes, once for all readers, and
// keeps it while a stream will need it and the memory budget has room. Memory is reserved
// before it is used. A group of equality deletes holds each value once, with its youngest
// delete, so that a row costs one lookup however many files the group has.
//
// A delete file that cannot be read completely is an error, never fewer deletes. So is one
// that deletes a row that its data file does not have.
//
// Sources: Iceberg specification, "Row-level Deletes", "Deletion Vectors", "Position
// Delete Files", "Equality Delete Files"; Puffin specification, "deletion-vector-v1".
package deletes
