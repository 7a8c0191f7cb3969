package tensor

import "github.com/apache/arrow-go/v18/arrow"

// Source is the Arrow type of values, without its parameters.
type Source arrow.Type

// UnmarshalText implements encoding.TextUnmarshaler. The words are those of Arrow's types.
func (s *Source) UnmarshalText(text []byte) error {
	for _, known := range sources {
		if known.word == string(text) {
			*s = Source(known.id)
			return nil
		}
	}
	return unknown("a source type", text)
}

// String returns the word for the type.
func (s Source) String() string {
	if known := s.known(); known != nil {
		return known.word
	}
	return arrow.Type(s).String()
}

func (s Source) known() *source {
	for i := range sources {
		if sources[i].id == arrow.Type(s) {
			return &sources[i]
		}
	}
	return nil
}

// source describes a type whose values can become numbers.
type source struct {
	id   arrow.Type
	word string
	// dtype is the type of its numbers, for Same; 0 if Same does not apply.
	dtype DType
	// bytes is the width of a value in Arrow's memory; 0 for booleans, texts and other types of varying width.
	bytes int
	kind  sourceKind
}

// sourceKind groups types that have the same conversions.
type sourceKind uint8

const (
	integers sourceKind = iota // also Hash and Lookup
	otherNumbers
	times
	decimals
	texts
)

// sources lists the types that a plan may name.
var sources = [...]source{ //nolint:gochecknoglobals // a constant table; Go has no constant arrays
	{arrow.BOOL, "bool", Bool, 0, otherNumbers},
	{arrow.INT8, "int8", Int8, 1, integers},
	{arrow.INT16, "int16", Int16, 2, integers},
	{arrow.INT32, "int32", Int32, 4, integers},
	{arrow.INT64, "int64", Int64, 8, integers},
	{arrow.UINT8, "uint8", Uint8, 1, integers},
	{arrow.UINT16, "uint16", Uint16, 2, integers},
	{arrow.UINT32, "uint32", Uint32, 4, integers},
	{arrow.UINT64, "uint64", Uint64, 8, otherNumbers},
	{arrow.FLOAT16, "float16", Float16, 2, otherNumbers},
	{arrow.FLOAT32, "float32", Float32, 4, otherNumbers},
	{arrow.FLOAT64, "float64", Float64, 8, otherNumbers},
	{arrow.DATE32, "date32", 0, 4, times},
	{arrow.DATE64, "date64", 0, 8, times},
	{arrow.TIME32, "time32", 0, 4, times},
	{arrow.TIME64, "time64", 0, 8, times},
	{arrow.TIMESTAMP, "timestamp", 0, 8, times},
	{arrow.DURATION, "duration", 0, 8, times},
	{arrow.DECIMAL32, "decimal32", 0, 4, decimals},
	{arrow.DECIMAL64, "decimal64", 0, 8, decimals},
	{arrow.DECIMAL128, "decimal128", 0, 16, decimals},
	{arrow.DECIMAL256, "decimal256", 0, 32, decimals},
	{arrow.STRING, "string", 0, 0, texts},
	{arrow.LARGE_STRING, "large_string", 0, 0, texts},
	{arrow.STRING_VIEW, "string_view", 0, 0, texts},
	{arrow.BINARY, "binary", 0, 0, texts},
	{arrow.LARGE_BINARY, "large_binary", 0, 0, texts},
	{arrow.FIXED_SIZE_BINARY, "fixed_size_binary", 0, 0, texts},
}

// result returns the type that a conversion makes of values, 0 if it does not apply to them.
func (c Conversion) result(s *source) DType {
	switch c {
	case Same:
		return s.dtype
	case Ticks:
		return when(s.kind == times, Int64)
	case Unscaled:
		return when(s.kind == decimals, Int64)
	case Nearest64:
		return when(s.kind == decimals, Float64)
	case Nearest32:
		return when(s.kind == decimals, Float32)
	case Hash, Lookup:
		return when(s.kind == texts || s.kind == integers, Int64)
	default:
		return 0
	}
}

func when(applies bool, d DType) DType {
	if applies {
		return d
	}
	return 0
}
