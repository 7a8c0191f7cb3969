// Package parquet reads one Parquet file. It exposes no types of arrow-go's Parquet packages ("the
// library"), which only it and the packages below it use in the product: page and decoder take
// column chunks apart, convert gives columns the types of a table, charged accounts for their memory,
// write and chunk make files, extend adds columns to them, and foreign reads files that are not in a
// table.
//
// Open takes a store.Object and reads the end of the file once. The Footer can be kept
// and shared to open the same file again without that read. It answers what a plan needs:
// rows, row groups, columns by Iceberg field id, statistics. Read decodes selected
// columns of selected row groups into the Arrow types that the caller wants, which depend
// on the table's types only.
//
// Guarantees: nothing is read before the first Next. The rows are exactly those that the
// footer counts, in file order, or the reader fails. A required column has no nulls.
// Damage is Corrupt and names the file and row group, whatever the library does,
// including panics. What this version cannot convert to the wanted type without loss or
// guessing is Invalid before anything is read. The checksums of decoded pages are verified
// where the file has them. If only some rows of a row group are wanted (ReadOptions.From and To),
// pages without such rows are stepped over by their headers, which are compared with the footer.
//
// Memory is reserved before it is allocated, if ReadOptions.Admit is given: the stored
// bytes of a row group, its decompressed pages and dictionaries by the sizes in their
// headers, what the library allocates without an allocator, and the batch, as it grows.
// Data that decompresses to more than its header declares is damage, and so are headers
// that declare more than the footer, or more than a page can hold. Not reserved are a
// codec's own tables, up to 16 MiB for each Brotli page that is being decompressed; the
// library's converted decimals inside structs and maps, of 16 bytes each; and a single copy of a damaged page
// whose frame declares too small a size.
//
// Undetectable damage: no checksum covers footers and page headers, so they are compared
// with each other and with the pages. If the footer has another field id for a column,
// the file lacks that column. Minima, maxima, null counts and bloom filters are trusted,
// and filters prune by them. In a file without checksums a flipped bit in a page may be
// another value. Otherwise a damaged file results in an error, or in its original rows.
package parquet
