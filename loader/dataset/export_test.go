package dataset

// The decoders behind the UnmarshalJSON of cursors and pins.
var (
	ParseCursor  = parseCursor
	ParseCursors = parseCursors
	ParsePin     = parsePin
)
