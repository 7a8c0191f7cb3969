package dataset

// The decoders behind the UnmarshalJSON of cursors and pins, of filters, whose
// faults tests look at, and of samples.
var (
	ParseCursor  = parseCursor
	ParseCursors = parseCursors
	ParsePin     = parsePin
	ParseFilter  = parseFilter
	ParseSample  = parseSample
)
