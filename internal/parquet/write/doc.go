// Package write writes Iceberg data files as Parquet.
//
// A DataWriter takes Arrow batches of one schema with Iceberg field ids and writes one file: its
// rows are those of the batches, in their order. The first rows are held back, and each column of
// them is encoded with all encodings that the column's type allows. The column gets the encoding
// that takes the fewest bytes after compression, with a bias to encodings that are cheap to decode.
// The file has field ids, a declaration of the order of its rows, statistics, column and offset
// indexes, and bloom filters for the columns that Options.Bloom names. The same batches with the
// same options result in the same bytes, on any machine.
//
// Close returns what a manifest needs by field id, computed from all values that were written:
// counts, sizes, and bounds in Iceberg's single-value serialization. A Roll writes a sequence of
// files.
//
// Values that other engines could not read, or would read differently, result in an Invalid error
// that names the column: nulls in a required column, text that is not UTF-8, decimals with too many
// digits, values that do not fit in a page. After any error the file is not complete and must be
// discarded.
//
// Memory is reserved before it is allocated, if Options.Memory is given: the rows held back, the
// encoded pages of the open row group, dictionaries, and the pages that are being filled. The
// codec's own tables are not reserved: a few MiB for each column that is encoded at the same time.
package write
