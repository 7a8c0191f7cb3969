package dataset

// The decoders behind the UnmarshalJSON of cursors and pins, and of filters,
// whose faults tests look at.
var (
	ParseCursor  = parseCursor
	ParseCursors = parseCursors
	ParsePin     = parsePin
	ParseFilter  = parseFilter
)
