// Package deletes applies position deletes, deletion vectors and equality deletes to the
// rows of data files.
//
// A Pool loads each delete file, or group of equality deletes, once for all readers, and keeps it
// while a stream will need it and the memory budget has room. Memory is reserved before it is used.
// A group of equality deletes holds each deleted value once, with the sequence number of its
// youngest delete. A row therefore costs one lookup, however many files the group has.
//
// If a delete file cannot be read completely, the result is an error, and never fewer deletes. It
// is also an error if a delete file deletes a row that the data file does not have.
//
// Sources: Iceberg specification, "Row-level Deletes", "Deletion Vectors", "Position
// Delete Files", "Equality Delete Files"; Puffin specification, "deletion-vector-v1".
package deletes
