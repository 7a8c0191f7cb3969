// Package deletes says which rows of data files are deleted: by position deletes, by
// deletion vectors and by equality deletes.
//
// A Pool loads each delete file, or group of equality deletes, once for all who ask
// for it, and keeps it for as long as a stream will need it and the memory budget does
// not ask for its room. What is loaded is charged before it is held. Of equality
// deletes it keeps each value once, with the youngest delete of it, so that a group of
// a thousand files costs a row one look.
//
// Promises: a delete file that cannot be read whole is an error, never fewer deletes.
// So is one that names a row which its data file does not have.
//
// Sources: Iceberg specification, "Row-level Deletes", "Deletion Vectors", "Position
// Delete Files", "Equality Delete Files"; Puffin specification, "deletion-vector-v1".
package deletes
