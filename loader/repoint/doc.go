// Package repoint rewrites the deletes of data files whose rows were copied to other files in the
// same order.
//
// Position deletes and deletion vectors name rows by the location of a data file. If a file is
// replaced by a copy with the same rows in the same order, such as one with additional columns, its
// deletes are rewritten for the copy: as position deletes for tables of format version 2, and as
// deletion vectors for tables of version 3. Equality deletes also apply to the copy if it keeps the
// sequence number.
//
// Sources: Iceberg specification, "Row-level Deletes", "Position Delete Files"; Puffin
// specification, "deletion-vector-v1".
package repoint
