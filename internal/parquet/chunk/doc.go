// Package chunk assembles Parquet files from column chunks that are already encoded.
//
// An EncodedChunk has the pages of one primitive column in one row group of another file, and the
// footer that describes them. An Assembler writes chunks one after another, byte for byte. The
// parts whose content depends on the positions of chunks follow: bloom filters behind each row
// group, and page indexes and the footer at the end. The schema, with its field ids, comes from the
// caller of New, not from the footers of the chunks.
//
// The bytes of a file depend only on the chunks, the schema and the order of the calls: lists that
// the library fills from maps are sorted.
package chunk
