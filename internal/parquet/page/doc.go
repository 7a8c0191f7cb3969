// Package page splits column chunks into pages: it reads their headers, verifies checksums,
// separates levels from values and decompresses within the sizes that the headers declare.
//
// Check compares all headers of a chunk with the footer and sums them up before anything is
// decompressed. Its Stats bound the memory that decoding takes. Importing the package replaces the
// codecs of the Parquet library by ones that never write more than a header declares.
package page
