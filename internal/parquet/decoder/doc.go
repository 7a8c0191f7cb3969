// Package decoder decodes the pages of a column chunk into Arrow data, for the columns and
// encodings that training tables mostly have. New returns nil for other columns, which are left to
// the Parquet library. Replace rewrites chunks that the library would refuse, and CheckContent and
// MeasureDeltas check content that the library would trust.
//
// Decoding never reads past a page, and never takes a value for a level or the reverse: a page
// whose number of values does not match its levels is an error. The memory of pages comes from the
// page.Reader; the memory of rows comes from the allocator that is passed to each call of Read.
package decoder
