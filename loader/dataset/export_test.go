package dataset

// Decoders that the UnmarshalJSON methods of cursors and pins call.
var (
	ParseCursor  = parseCursor
	ParseCursors = parseCursors
	ParsePin     = parsePin
)
