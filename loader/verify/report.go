package verify

import (
	"slices"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan/coverage"
)

// Report is the result of a verification.
type Report struct {
	Dataset  string      `json:"dataset"` // "" for an inline dataset
	Plan     string      `json:"plan"`
	Pin      dataset.Pin `json:"pin"`
	Tables   []Table     `json:"tables"`   // the training table, then the staging tables in the dataset's order
	Findings []Finding   `json:"findings"` // by grade, the worst first
}

// Clean reports whether all findings are only worth knowing: no finding breaks a stream or a rule.
func (v *Report) Clean() bool {
	return !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Grade != worthKnowing })
}

// Table describes one table's files and, for a staging table, how its keys compare with
// those of the training rows.
type Table struct {
	Name    string         `json:"name"` // name of the staging entry; "training" (with a null Join) for the training table
	Table   string         `json:"table"`
	Files   []File         `json:"files"`    // ordered by location
	Rows    int64          `json:"rows"`     // sum over Files, according to their manifests
	Specs   map[int]string `json:"specs"`    // by id of the partition specs of Files: fields such as "bucket[16](id)"
	LeftOut int            `json:"left_out"` // training files that are not read, because filters or the sample exclude them
	Join    *Join          `json:"join,omitempty"`
	Limits  *drift.Checked `json:"limits,omitempty"` // nil: the dataset has none for the table, or they were not checked
}

// File describes the layout of one file.
type File struct {
	File      string `json:"file"`
	Spec      int    `json:"spec"`
	Partition string `json:"partition"` // "day = 20361, bucket[16](id) = 3"; "" without partition fields
	Rows      int64  `json:"rows"`
	Bucketed  bool   `json:"bucketed"` // whether it is bucketed by a column of the join key
	Wrong     int64  `json:"wrong"`    // rows that belong to another bucket
	Unread    bool   `json:"unread"`   // whether the file could not be read to its end
	// NoChecksum is whether any page that was read has no checksum. Damage to such a page may go
	// unnoticed.
	NoChecksum bool `json:"no_checksum,omitempty"`
}

// Join compares one staging table's keys with those of the training rows that pass filters and the
// sample. With a time rule, a training row matches if its key has a staging row within the
// tolerance, and only rows that have the same key and the same time are duplicates.
type Join struct {
	TrainingRows int64   `json:"training_rows"`
	Matched      int64   `json:"matched"`
	Missing      int64   `json:"missing"`
	NullKeys     int64   `json:"null_keys"`  // part of Missing: training rows with a null in the key
	MatchRate    float64 `json:"match_rate"` // Matched / TrainingRows; 1 if there are no training rows
	MinMatch     float64 `json:"min_match"`

	Unmatched []string `json:"unmatched"` // a few keys of training rows without a match, truncated

	Rows            int64 `json:"rows"`             // staging rows that pass the filter
	NullRows        int64 `json:"null_rows"`        // part of Rows: rows with a null in the key or the time, which match nothing
	Keys            int64 `json:"keys"`             // distinct keys
	DuplicateKeys   int64 `json:"duplicate_keys"`   // keys with several rows
	SurplusRows     int64 `json:"surplus_rows"`     // rows of these keys, without the first row of each key
	DuplicatesAsked int64 `json:"duplicates_asked"` // part of DuplicateKeys: keys that a training row matches
	Duplicates      []Key `json:"duplicates"`       // the first few
	OrphanKeys      int64 `json:"orphan_keys"`      // keys that no training row has, except rows of other buckets or partitions
	OrphanRows      int64 `json:"orphan_rows"`      // rows of these keys
	Orphans         []Key `json:"orphans"`          // the first few
	Passes          int   `json:"passes,omitempty"` // number of passes over the keys, if not all keys fit in memory

	// Cells divides TrainingRows and Matched by partition and bucket of the training table.
	Cells *coverage.Matches `json:"cells"`

	Forms *Forms `json:"forms,omitempty"` // how both tables write their keys, if few rows match, or if keys without a match exist in another spelling
}

// Key is one key and the files of its first rows.
type Key struct {
	Key   string   `json:"key"` // its values, truncated
	Rows  int64    `json:"rows"`
	Files []string `json:"files"` // the file of the first row and, if there is a second row, the file of that row
}

// Kind is the subject of a Finding.
type Kind string

// The kinds of findings.
const (
	badLayout      Kind = "layout"      // a file has keys of other buckets
	unreadable     Kind = "unreadable"  // a file is damaged, missing, or of an unsupported form
	duplicateKeys  Kind = "duplicates"  // keys with several rows, if the entry's rule is `error`
	missingMatches Kind = "missing"     // training rows without a match, if the entry's rule is `error`
	lowMatchRate   Kind = "match_rate"  // a match rate below min_match
	fewMatches     Kind = "few_matches" // few rows or none match, if min_match is not set
	otherSpelling  Kind = "spelling"    // keys without a match exist in another spelling
	noChecksums    Kind = "checksums"   // pages without a checksum
	beyondLimit    Kind = "limits"      // a limit of values does not hold, or was not checked
	promotedEntry  Kind = "promoted"    // the values of a staging entry are columns of the training table
)

// Grade is the severity of a Finding.
type Grade string

// The grades of findings, the worst first.
const (
	breaksStream Grade = "stream" // a stream of the dataset ends with an error
	breaksRule   Grade = "rule"   // a rule of the dataset does not hold
	worthKnowing Grade = "note"   // breaks nothing
)

// grades returns all grades, the worst first.
func grades() []Grade { return []Grade{breaksStream, breaksRule, worthKnowing} }

// title returns the heading of the findings of a grade.
func (g Grade) title() string {
	switch g {
	case breaksStream:
		return "breaks a stream"
	case breaksRule:
		return "breaks a rule"
	case worthKnowing:
		return "worth knowing"
	}
	return string(g)
}

// Finding is something that was found.
type Finding struct {
	Grade   Grade  `json:"grade"`
	Kind    Kind   `json:"kind"`
	Table   string `json:"table"`          // name of the Table; "" if the finding is about several tables
	File    string `json:"file,omitempty"` // set if the finding is about one file
	Message string `json:"message"`
	// Limit is the value and its limit, if the finding is about a limit of values.
	Limit *drift.Change `json:"limit,omitempty"`
}
