// Package extend adds columns to a Parquet file: the new file has the old column chunks byte for
// byte, and the new columns in the same row groups.
//
// AddColumns opens the old file. The caller writes the new columns to the DataWriter that it returns: one row for
// each row of the old file, in its order. Row groups, their declared order, statistics, bloom
// filters and page indexes of the old columns stay; what depends on positions is corrected, and the footer is
// written again. Fields without an id can get one. Metadata that describes all columns of the
// old file, such as Spark's and Arrow's schemas, is left out, because it would hide the new ones.
//
// Nothing of the old file is decoded but its footer, its bloom filters' headers and its offset indexes. Damage
// in its pages stays, and is found when they are read.
package extend
