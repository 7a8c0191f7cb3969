// Package decoder decodes the pages of a column chunk into Arrow data, for the columns and encodings
// that training tables mostly have. New returns nil for the others, which are left to the Parquet
// library; Replace rewrites chunks that the library would refuse, and CheckContent and MeasureDeltas
// check what it would trust.
//
// Decoding never reads past a page, and never takes a value for a level or the reverse: a page that
// has more or fewer values than rows is an error. Memory of pages comes from the page.Reader, and
// memory of rows from the allocator that each call is given.
package decoder
