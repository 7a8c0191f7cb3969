package dataset

import (
	"cmp"
	"time"
)

// Default is what a column gets where a training row has no staging row.
type Default struct {
	Column string // output name
	Value  any    // nil, bool, int64, float64 or string, as decoded; resolve types it
}

// OrderBy is one column by which staging rows of one key are ordered; nulls
// are last either way.
type OrderBy struct {
	Column     string
	Descending bool
}

// Distinct drops repeated training rows: of the rows that agree in the columns
// By, null being equal to null, the first or last stays, by OrderBy and then
// by the training table's stored order.
type Distinct struct {
	By      []string
	Keep    Keep
	OrderBy []OrderBy
	Scope   Scope
}

// Keep says which of repeated rows stays.
type Keep string

// Which of repeated rows stays.
const (
	KeepFirst Keep = "first"
	KeepLast  Keep = "last"
)

// KeepsLast says whether it is the last.
func (k Keep) KeepsLast() bool {
	switch k {
	case KeepLast:
		return true
	case KeepFirst:
		return false
	}
	return false
}

// Scope says among which rows repeated ones are looked for.
type Scope string

// The scopes of Distinct.
const (
	ScopeTable     Scope = ""          // all rows: By must name a bucketed column, and no other partition field may part equal rows
	ScopePartition Scope = "partition" // rows of one partition
)

// OfPartition says whether each partition is looked at by itself.
func (s Scope) OfPartition() bool {
	switch s {
	case ScopePartition:
		return true
	case ScopeTable, scopeTableWord:
		return false
	}
	return false
}

// Align joins each training partition with one staging partition, so that no
// feature from the future leaks in. Training and Staging name the columns that
// the partition fields are made of, or the fields themselves.
type Align struct {
	Training string
	Staging  string    // default: Training
	Rule     AlignRule // default: AlignLag with a Lag, AlignSame without
	// Lag is how far the staging partition lies before the training
	// partition: a duration for time partitions, a count for integers. Of
	// AlignLag it is the distance, of AlignLatestBefore the least distance.
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

// AlignRule says which staging partition a training partition takes.
type AlignRule string

// The rules of Align.
const (
	AlignSame         AlignRule = "same"          // the partition of the same value
	AlignLag          AlignRule = "lag"           // the partition Lag before
	AlignLatestBefore AlignRule = "latest_before" // the latest that exists and lies wholly before, by at least Lag
)

// IsSame says whether a partition takes the one of its own value.
func (r AlignRule) IsSame() bool { return r == AlignSame }

// IsLag says whether it takes the one at a distance.
func (r AlignRule) IsLag() bool { return r == AlignLag }

// IsLatest says whether it takes the latest of those before it.
func (r AlignRule) IsLatest() bool { return r == AlignLatestBefore }

// Lag is a distance between partitions: Months and Time for time partitions
// ("1d", "6h", "2mo", "1y"), Count for integers ("3").
type Lag struct {
	Months int
	Time   time.Duration
	Count  int64
}

// PointInTime takes, per key, the latest staging row that is not after the
// training row's time, over all partitions within the tolerance.
type PointInTime struct {
	Training  string // time column of the training table: date, timestamp, timestamptz or long
	Staging   string // time column of the staging table, of the same type; default: Training
	Tolerance Lag    // how much older the staging row may be; required. Of long columns a Count, of others a Time
	Exact     bool   // whether a staging row of the very same time counts; decoding sets it unless `exact: false`
}

// customPrefix begins the names of strategies that the composition root
// registered.
const customPrefix = "custom:"

// DefaultMaxAmplification is the default of Staging.MaxAmplification.
const DefaultMaxAmplification = 4

// Sample is a part of the training rows that depends on their values alone.
type Sample struct {
	// Hash keeps the rows whose position in hash space is in [From, To); From
	// above To wraps around, so that [b, a) is the complement of [a, b). Nil
	// keeps all.
	Hash *HashRange
	By   SampleBy
	// Rate is the share of the rows for which Where holds that is kept, others
	// stay; 1, the default, keeps all.
	Rate  float64
	Where Filter
}

// HashRange is a part of hash space, whose positions lie in [0, 1).
type HashRange struct {
	From, To float64
}

// SampleBy says what is hashed.
type SampleBy string

// What a Sample hashes.
const (
	SampleByRequest SampleBy = "request" // the first column of the dataset's key: all rows of a request go together
	SampleByKey     SampleBy = "key"     // all columns of the dataset's key
)

// WholeKey says whether all columns of the key are hashed.
func (b SampleBy) WholeKey() bool {
	switch b {
	case SampleByKey:
		return true
	case SampleByRequest:
		return false
	}
	return false
}

// defaults sets what decoding sets.
func (s Sample) defaults() Sample {
	s.By = cmp.Or(s.By, SampleByRequest)
	s.Rate = cmp.Or(s.Rate, 1)
	return s
}
