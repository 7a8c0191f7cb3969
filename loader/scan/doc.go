// Package scan reads the files of a source as batches: the rows that pass its filter and
// are in its sample, in the order of its files, with the requested columns.
//
// A Scanner holds what all scans of a process share. Open returns a Reader, an arrow-go
// record reader that can also name the file of each row.
//
// A Reader starts up to two goroutines, in an errgroup:
//
//	consumer                 decoder (walk.run)         opener (walk.openAhead)
//	────────                 ──────────────────         ───────────────────────
//	Begin (optional) ─────────────────────────────────► opens the first file
//	first Next ────────────► starts
//	                         takes the opened file ◄─── ends
//	                         starts the next opener ──► opens the next file, and fetches
//	                         decodes the file           its first row group
//	Next ◄── prefetchQueue ◄ pushes batches
//	                         ends with the last file, with an error, or when canceled
//	Release ───────────────► cancels and waits for both
//
// Without Begin, nothing is read before the first Next, and the decoder opens the first
// file itself. There is at most one opener at a time; the decoder, or Release if there is
// no decoder, takes what the last one opened and closes it. An opener does not wait for
// memory: it leaves work that lacks memory to the decoder. A fetch of a row group
// (internal/parquet) is canceled when its memory is needed elsewhere. The decoder works ahead of the consumer up to Options.Ahead bytes, while the budget has
// memory to spare.
//
// A reader reserves memory before it uses it: for the stored bytes and the pages of the
// open row group, the batch that is being decoded, the rows that a filter copies, and the
// batches in the queue. If a file needs more than the budget has, the reader fails as
// Exhausted. Batches with long strings have fewer rows.
//
// Scans of one stream that read the same row groups, at the same time or one after another, can
// share the row groups' stored bytes and dictionaries: Scanner.Share makes a SharedScans, and
// SharedScans.Expect announces a scan. The bytes are charged to the scan that needs them first, and
// stay until the last expected scan is past the row group. If a reservation lacks room, bytes that
// no scan is decoding are released at once. If that is not enough, decoders whose consumers are not
// waiting give up their row groups: their reads end with errGivenUp, they release their memory, and
// they continue at the next row once their consumers wait.
//
// The rows are exactly those of the manifests, or the reader fails. A file whose length or row
// count differs from the manifest, a page that cannot be decoded, and a key outside its file's
// bucket are errors that name the table, the file and, if there is one, the row group. Row groups
// that statistics rule out are not read. The filter is evaluated on the rows of all other row
// groups, so that statistics never change which rows are returned.
//
// Columns, and fields of structs, are found by Iceberg field id and promoted to the table's types.
// Files without ids get the ids from the table's name mapping. If a file lacks a column, the column
// has the value that the file's partition has for it, otherwise its initial default, otherwise
// null. A file whose columns cannot be supplied is refused.
//
// Deleted rows are dropped like rows that do not pass the filter. Both still count as rows of a
// file's range.
package scan
