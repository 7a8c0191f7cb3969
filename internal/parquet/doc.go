// Package parquet reads one Parquet file. It is the only user of arrow-go's
// Parquet packages in the product, and none of their types leave it.
//
// A file is opened from a store.Object with one read of its end; its Footer
// can be kept and shared to open the same file again without that read. The
// footer answers what a plan needs: rows, row groups, columns by Iceberg field
// id, statistics. Read decodes chosen columns of chosen row groups into the
// Arrow types that the caller asks for, which follow the table's types alone.
//
// Promises: nothing is read before the first Next; the rows are exactly those
// that the footer counts, in the file's order, or the reader fails; a required
// column has no nulls; damage is Corrupt with file and row group named,
// whatever the decoder below does, a panic included; what this version cannot
// turn into the wanted type without loss or guessing is Invalid before
// anything is read. Page checksums are verified where the file has them.
//
// Memory is asked for before it is taken, where ReadOptions.Admit is given: the
// stored bytes of a row group, its pages and dictionaries before compression as
// their headers declare them, what the library makes without an allocator, and the
// batch, as it grows. What decompresses to more than its header declares is damage,
// and so are headers that declare more than the footer, or what no page can hold.
// Not asked for are a codec's own tables, up to 16 MiB for each page of Brotli that
// is being decompressed; decimals as the library converts them, of a width of 16
// bytes; and a copy of a damaged page, once, where its frame says too little.
//
// What damage can not be seen: no checksum covers a footer or a page's header,
// so these are held to one another and to the pages. A footer that has another
// field id for a column than it had lacks that column; minima, maxima, null counts
// and bloom filters are believed, and a filter prunes by them; and in a file without
// checksums another bit within a page may be another value. Else a damaged file
// gives an error, or the rows that it had.
package parquet
