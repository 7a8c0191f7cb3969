// Package write writes Iceberg data files as Parquet.
//
// A DataWriter takes Arrow batches of one schema with Iceberg field ids and writes one file: its
// rows are those of the batches, in their order. The first rows are held back and encoded in all
// ways that the type of a column allows, and each column gets the encoding that takes the fewest
// bytes after compression, with a bias to those that are cheap to decode. The file has
// field ids, the order of its rows, statistics, column and offset indexes, and bloom filters where
// they are wanted. The same batches with the same options result in the same bytes, on any machine.
//
// Close returns what a manifest needs: counts, sizes and bounds by field id, in Iceberg's
// single-value serialization, of all values that were written. A Roll writes a sequence of files.
//
// What other engines could not read, or would read otherwise, is Invalid and names the column:
// nulls in a required column, text that is not UTF-8, decimals with too many digits, values that
// do not fit in a page. After any error the file is not complete and must be discarded.
//
// Memory is reserved before it is allocated, if Options.Memory is given: the rows held back, the
// encoded pages of the open row group, dictionaries, and the pages that are being filled. Not reserved are
// the codec's own tables, of some MiB for each column that is encoded at the same time.
package write
