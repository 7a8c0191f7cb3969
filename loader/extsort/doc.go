// Package extsort divides the rows of an Arrow stream into the partitions of a table, and sorts the
// rows of each partition, in bounded memory. The result can be written to a table as data files.
//
// A [Sorter] takes batches. It collects rows up to its working memory, sorts them by partition
// and key, and writes them to local disk as a sorted run. While the spare memory that it shares with
// other sorters has room, it collects more rows instead. [Sorter.Finish] returns the
// [Sorted] rows: a list of partitions, each of which is read as one stream that merges the
// runs. Rows that fit in memory are never written to disk. If there are more runs than can be
// read at once, Finish merges some of them first.
//
// The rows of a result, and their order, depend only on the added rows and the order in which they
// were added. They do not depend on how rows were divided into batches, nor on memory, runs or
// threads. Rows with equal keys stay in the order in which they were added.
//
// The package does not depend on catalogs, files or networks: the caller passes the store for runs
// (see [Options]). Every byte of a row that it holds is reserved from the budget first, and no
// goroutine outlives the call that started it.
package extsort
