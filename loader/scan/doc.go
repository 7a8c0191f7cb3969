// Package scan turns the files of a source into batches: the rows that pass
// its filter and that its sample keeps, in the order of its files, with the
// columns asked for.
//
// A Scanner holds what all reads of a process share. Each Open gives a Reader,
// an arrow-go record reader that also knows the file of every row that it
// gave. Nothing is read before the first Next; from then on one goroutine
// decodes ahead of the consumer, within a bound of bytes and within the memory
// budget, and a second one may open the next file. Release ends both.
//
// What a reader holds it has reserved before: the stored bytes and the pages of the
// open row group, the batch that is being decoded, the rows that a filter copies,
// and the batches that wait. Where a file would take more than there is, the reader
// fails as Exhausted before it takes it. Batches are shorter where strings are long.
//
// Promises: the rows are exactly those of the manifests, or the reader fails.
// A file whose length or row count is not what the manifest says, a page that
// cannot be decoded, a key outside its file's bucket: each is an error that
// names table, file and, where there is one, row group. Row groups that
// statistics rule out are not read; the filter is evaluated on all others, so
// statistics change the work and never the rows.
//
// Columns, and fields of structs, are found by Iceberg field id, whatever their names
// were, and promoted to the types that they have now; files without ids get theirs by
// the table's name mapping. A column that a file lacks has the value that the file's
// partition says, or its initial default, or is null. What cannot be supplied is refused
// with the file's name.
//
// Rows that delete files delete are left out as those that a filter leaves out are: a
// range counts them.
package scan
