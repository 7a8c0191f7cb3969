// Package parquet reads one Parquet file. It exposes no types of arrow-go's Parquet packages ("the
// library"). In the product, only this package and the packages below it use the library: page and
// decoder take column chunks apart, convert gives columns the types of a table, charged accounts
// for their memory, write and chunk make files, extend adds columns to them, and foreign reads
// files that are not in a table.
//
// Open takes a store.Object and reads the end of the file once. The Footer can be kept and shared
// to open the same file again without that read. It has what a plan needs: the number of rows, the
// row groups, the columns by Iceberg field id, and statistics. Read decodes selected columns of
// selected row groups into the Arrow types that the caller requests, which depend on the table's types
// only.
//
// Guarantees: nothing is read before the first Next. The rows are exactly those that the footer
// counts, in file order, or the reader fails. A required column has no nulls. A damaged file
// results in a Corrupt error that names the file and row group, whatever the library does,
// including panics. A column that this version cannot convert to the wanted type without loss or
// guessing results in an Invalid error before anything is read. The checksums of decoded pages are
// verified where the file has them. If only some rows of a row group are wanted (ReadOptions.From
// and To), pages without such rows are skipped without decompressing them; their headers are still
// read and compared with the footer.
//
// Memory is reserved before it is allocated, if ReadOptions.Admit is given: the stored bytes of a
// row group, its decompressed pages and dictionaries by the sizes in their headers, what the
// library allocates without an allocator, and the batch, as it grows. Data that decompresses to
// more than its header declares is damage, and so are headers that declare more than the footer, or
// more than a page can hold. The following memory is not reserved: a codec's own tables (up to 16
// MiB for each Brotli page that is being decompressed), the decimals inside structs and maps that
// the library converts (16 bytes each), and one copy of a damaged page whose frame declares too
// small a size.
//
// Some damage cannot be detected: no checksum covers footers and page headers, so they are only
// compared with each other and with the pages. If the footer has another field id for a column, the
// file lacks that column. Minima, maxima, null counts and bloom filters are trusted, and filters
// prune by them. In a file without checksums a flipped bit in a page may be another value.
// Otherwise a damaged file results in an error, or in its original rows.
package parquet
