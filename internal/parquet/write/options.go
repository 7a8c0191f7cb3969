package write

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// The defaults of Options, which are Iceberg's, except for the rows of row groups and the page size.
const (
	defaultRowGroupBytes = 128 << 20
	defaultRowGroupRows  = 1 << 20
	defaultPageBytes     = 1 << 20
	defaultPageRows      = 20_000
	defaultFormat        = 2

	dictionaryBytes = 2 << 20 // a larger dictionary is given up, and later pages are plain
	bloomBytes      = 1 << 20 // maximum size of a bloom filter
	statisticsBytes = 1 << 10 // longer minima and maxima are left out of footer and page index
	maxRowBytes     = 64 << 20
	stepRows        = 8192     // maximum number of rows that are encoded between two checks of the sizes
	stepBytes       = 16 << 20 // maximum plain size of these rows, unless a single row is larger
	sampleBytes     = 32 << 20
	createdBy       = "penstock version 1.0.0"
)

// MemoryAccount is an account of memory, such as a budget.Reservation.
type MemoryAccount interface {
	Grow(bytes int64) error
	Shrink(bytes int64)
}

// Options are the options of a file. For each field except Schema, the zero value means the
// default.
type Options struct {
	// Schema has the columns with the types that tables have in this project, and field ids as
	// PARQUET:field_id metadata of all fields, nested ones included.
	Schema *arrow.Schema
	// UUIDs are the ids of the 16-byte fields whose Iceberg type is uuid. The type of all other
	// 16-byte fields is fixed[16].
	UUIDs []int
	// FormatVersion is the table's format version. Tables have timestamps in nanoseconds only from
	// version 3 on.
	FormatVersion int
	// RowGroupBytes is the compressed size at which a row group ends.
	RowGroupBytes int64
	// PageRows is the approximate number of rows of a page, and the number of rows that are encoded
	// to choose encodings.
	PageRows int64
	// Sorting declares the order of the rows. It is not checked.
	Sorting []SortingColumn
	// Bloom are the ids of the fields with bloom filters. Booleans have none.
	Bloom []int
	// ByteStreamSplit makes the choice of encodings also try BYTE_STREAM_SPLIT for floats and
	// doubles. Spark's own reader cannot read that encoding, and neither can Iceberg's reader
	// before version 1.12.
	ByteStreamSplit bool
	// Dictionary are the ids of fields that get dictionaries even if another encoding is smaller,
	// because readers require dictionaries.
	Dictionary []int
	// Choice has the encodings of earlier files with the same columns; nil: each file chooses its own.
	Choice *EncodingChoice
	// Parallel is the number of columns that are encoded at the same time; 0 is 1.
	Parallel int
	// Memory is the account for memory; nil is unlimited.
	Memory MemoryAccount

	// rowGroupRows is the number of rows at which a row group ends, and pageBytes the uncompressed
	// size at which a page ends. Only tests set them.
	rowGroupRows, pageBytes int64
}

// SortingColumn is a primitive column by which the rows are sorted.
type SortingColumn struct {
	FieldID                int
	Descending, NullsFirst bool
}

// withDefaults returns the options with defaults in place of zero values.
func (o Options) withDefaults() (Options, error) {
	for _, d := range []struct {
		value    *int64
		standard int64
	}{{&o.RowGroupBytes, defaultRowGroupBytes}, {&o.rowGroupRows, defaultRowGroupRows}, {&o.pageBytes, defaultPageBytes}, {&o.PageRows, defaultPageRows}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			return o, fault.New(fault.Invalid, "sizes of row groups and pages cannot be negative")
		}
	}
	for _, d := range []struct {
		value    *int
		standard int
	}{{&o.FormatVersion, defaultFormat}, {&o.Parallel, 1}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if o.Memory == nil {
		o.Memory = unlimited{}
	}
	return o, nil
}

// unlimited is an account without a limit.
type unlimited struct{}

func (unlimited) Grow(int64) error { return nil }
func (unlimited) Shrink(int64)     {}

// wantsBloom reports whether a field gets a bloom filter.
func (o Options) wantsBloom(id int) bool { return slices.Contains(o.Bloom, id) }
