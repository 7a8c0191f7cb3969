// Package chunk assembles Parquet files from column chunks that are already encoded.
//
// A EncodedChunk is the pages of one primitive column in one row group, as another file has them, with
// the footer that describes them. An Assembler writes chunks one after another, byte for byte,
// and then what depends on their positions: bloom filters behind each row group, page indexes and
// the footer at the end. The schema, with its field ids, is the Assembler's own.
//
// The bytes of a file depend only on the chunks, the schema and the order of the calls: lists that
// the library fills from maps are sorted.
package chunk
