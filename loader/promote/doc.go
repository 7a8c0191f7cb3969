// Package promote copies the columns of staging entries into the training table.
//
// Each data file of the training table is replaced by a file with the same column chunks, byte for
// byte, followed by the new columns. For each row, including deleted rows, the new columns have the
// values that a read of the dataset returns. First, a schema that is not yet current reserves the
// field ids of the new columns; the columns' documentation names the snapshots that the values come
// from. Then files are replaced in groups. This does not affect readers, because the current schema
// lacks the new columns. When all files have the columns and all checks pass, one commit makes the
// schema current.
//
// An interrupted promotion resumes where it stopped: it recognizes files that have the columns by
// their names.
package promote
