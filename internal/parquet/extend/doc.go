// Package extend adds columns to a Parquet file: the new file has the old column chunks byte for
// byte, and the new columns in the same row groups.
//
// AddColumns opens the old file. The caller writes the new columns to the DataWriter that it
// returns: one row for each row of the old file, in its order. The row groups and their declared
// order stay, and so do the statistics, bloom filters and page indexes of the old columns. Offsets
// in them are corrected, and the footer is written again. Fields without an id can get one
// (Options.NameMapping). Metadata that describes all columns of the old file, such as Spark's and
// Arrow's schemas, is left out, because it would hide the new ones.
//
// The only parts of the old file that are decoded are its footer, the headers of its bloom filters,
// and its offset indexes. Damage in its pages stays, and is found when they are read.
package extend
