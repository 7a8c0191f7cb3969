package dataset

import (
	"cmp"
	"strings"
	"time"
)

// Default is the value of a column in training rows without a match.
type Default struct {
	Column string // output name
	Value  any    // nil, bool, int64, float64 or string, as decoded; resolve converts it to the column's type
}

// OrderBy is a column that orders the staging rows of one key. Nulls are last in both
// directions.
type OrderBy struct {
	Column     string
	Descending bool
}

// The directions of an OrderBy in its text form.
const (
	ascending  = "asc"
	descending = "desc"
)

// ParseOrderBy parses the name of a column with an optional direction, such as "a" or
// "a desc". Every text is valid: if it does not end in a direction, all of it is the name.
func ParseOrderBy(text string) OrderBy {
	column, direction := directed(text)
	return OrderBy{Column: column, Descending: direction == descending}
}

// text returns the text that ParseOrderBy parses.
func (o OrderBy) text() string {
	if o.Descending {
		return o.Column + " " + descending
	}
	if _, direction := directed(o.Column); direction != "" {
		return o.Column + " " + ascending
	}
	return o.Column
}

// directed splits a column's name from a direction that follows it, if any.
func directed(text string) (column, direction string) {
	at := strings.LastIndexByte(text, ' ')
	if at < 1 {
		return text, ""
	}
	direction = strings.ToLower(text[at+1:])
	if direction != ascending && direction != descending {
		return text, ""
	}
	return text[:at], direction
}

// Distinct drops repeated training rows. Of the rows with equal values in the columns By,
// where nulls are equal, it keeps the first or last, ordered by OrderBy and then by the
// training table's stored order.
type Distinct struct {
	By      []string
	Keep    Keep
	OrderBy []OrderBy
	Scope   Scope
}

// Keep selects the row to keep among repeated rows.
type Keep string

// The values of Keep.
const (
	KeepFirst Keep = "first"
	KeepLast  Keep = "last"
)

// KeepsLast reports whether the last row is kept.
func (k Keep) KeepsLast() bool {
	switch k {
	case KeepLast:
		return true
	case KeepFirst:
		return false
	}
	return false
}

// Scope is the set of rows in which repeated rows are found.
type Scope string

// The scopes of Distinct.
const (
	ScopeTable     Scope = ""          // the whole table: By must name a bucketed column, and no other partition field may separate equal rows
	ScopePartition Scope = "partition" // each partition
)

// OfPartition reports whether each partition is handled separately.
func (s Scope) OfPartition() bool {
	switch s {
	case ScopePartition:
		return true
	case ScopeTable:
		return false
	}
	return false
}

// Align joins each training partition with one staging partition, so that no features
// from the future leak in. Training and Staging name the source columns of the partition
// fields, or the fields themselves.
type Align struct {
	Training string
	Staging  string    // default: Training
	Rule     AlignRule // default: AlignLag if Lag is set, otherwise AlignSame
	// Lag is how far the staging partition precedes the training partition: a duration for
	// time partitions, a count for integers. It is the exact distance for AlignLag, and
	// the minimum distance for AlignLatestBefore.
	Lag Lag
}

// defaults sets the names and the rule that follow from the other fields.
func (a Align) defaults() Align {
	a.Staging = cmp.Or(a.Staging, a.Training)
	if a.Rule == "" && a.Lag != (Lag{}) {
		a.Rule = AlignLag
	}
	a.Rule = cmp.Or(a.Rule, AlignSame)
	return a
}

// AlignRule selects the staging partition for a training partition.
type AlignRule string

// The rules of Align.
const (
	AlignSame         AlignRule = "same"          // the partition with the same value
	AlignLag          AlignRule = "lag"           // the partition that is Lag earlier
	AlignLatestBefore AlignRule = "latest_before" // the latest existing partition that lies entirely before the training partition, by at least Lag
)

// IsSame reports whether the partition with the same value is selected.
func (r AlignRule) IsSame() bool { return r == AlignSame }

// IsLag reports whether the partition at a fixed distance is selected.
func (r AlignRule) IsLag() bool { return r == AlignLag }

// IsLatest reports whether the latest earlier partition is selected.
func (r AlignRule) IsLatest() bool { return r == AlignLatestBefore }

// Lag is a distance between partitions: Months and Time for time partitions ("1d", "6h",
// "2mo", "1y"), Count for integers ("3").
type Lag struct {
	Months int
	Time   time.Duration
	Count  int64
}

// PointInTime selects, for each key, the latest staging row that is not after the
// training row's time, across all partitions within the tolerance.
type PointInTime struct {
	Training  string // time column of the training table: date, timestamp, timestamptz or long
	Staging   string // time column of the staging table, of the same type except for the zone; default: Training
	Tolerance Lag    // maximum age of the staging row relative to the training row; required. Count for long columns, Time for others
	Exact     bool   // whether a staging row with an equal time matches; decoding sets it unless the text has `exact: false`
	Zone      Zone   // the zone of timestamps without a zone, if the other table's timestamps have a zone
}

// Zone is the time zone in which timestamps without a zone are interpreted.
type Zone string

// The values of Zone.
const (
	ZoneNone Zone = ""    // timestamps with and without a zone are not compared
	ZoneUTC  Zone = "UTC" // the only zone that Iceberg's timestamps have
)

// Known reports whether timestamps without a zone can be compared with timestamps that have a zone.
func (z Zone) Known() bool {
	switch z {
	case ZoneUTC:
		return true
	case ZoneNone:
		return false
	}
	return false
}

// CustomPrefix is the prefix of the names of custom strategies, which a build of Penstock registers.
const CustomPrefix = "custom:"

// DefaultMaxAmplification is the default of Staging.MaxAmplification.
const DefaultMaxAmplification = 4

// Sample selects a part of the training rows by their values.
type Sample struct {
	// Hash selects the rows whose hash position is in [From, To). If From is greater than
	// To, the range wraps around, so that [b, a) is the complement of [a, b). Nil selects
	// all rows.
	Hash *HashRange
	By   SampleBy
	// Rate is the fraction to keep of the rows that match Where. All other rows are
	// kept. The default is 1, which keeps all rows.
	Rate  float64
	Where Filter
}

// HashRange is a range of hash positions, which are in [0, 1).
type HashRange struct {
	From, To float64
}

// SampleBy is the set of columns that are hashed.
type SampleBy string

// The values of SampleBy.
const (
	SampleByRequest SampleBy = "request" // the first column of the dataset's key, so that the rows of a request stay together
	SampleByKey     SampleBy = "key"     // all columns of the dataset's key
)

// WholeKey reports whether all columns of the key are hashed.
func (b SampleBy) WholeKey() bool {
	switch b {
	case SampleByKey:
		return true
	case SampleByRequest:
		return false
	}
	return false
}

// defaults sets the same defaults as decoding.
func (s Sample) defaults() Sample {
	s.By = cmp.Or(s.By, SampleByRequest)
	s.Rate = cmp.Or(s.Rate, 1)
	return s
}
