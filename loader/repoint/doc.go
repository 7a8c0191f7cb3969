// Package repoint writes the deletes of data files whose rows are now in other files, row for row.
//
// Position deletes and deletion vectors name rows by the location of a data file. If a file is
// replaced by a copy with the same rows in the same order, such as one with additional columns, its
// deletes are written again for the copy: as position deletes for tables of format version 2, as
// deletion vectors for those of version 3. Equality deletes apply to the copy as they did to the
// original, as long as it keeps the sequence number.
//
// Sources: Iceberg specification, "Row-level Deletes", "Position Delete Files"; Puffin
// specification, "deletion-vector-v1".
package repoint
