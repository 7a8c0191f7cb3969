package verify

import (
	"slices"

	"github.com/penstock/penstock/loader/dataset"
)

// Report is the result of a verification.
type Report struct {
	Dataset  string      `json:"dataset"` // "" for an inline dataset
	Plan     string      `json:"plan"`
	Pin      dataset.Pin `json:"pin"`
	Tables   []Table     `json:"tables"`   // the training table, then the staging tables in the dataset's order
	Findings []Finding   `json:"findings"` // by grade, the worst first
}

// Clean reports whether no finding breaks anything.
func (v *Report) Clean() bool {
	return !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Grade != worthKnowing })
}

// Table describes one table's files and, for a staging table, how its keys compare with
// those of the training rows.
type Table struct {
	Name    string         `json:"name"` // of the staging entry; "training" with a null Join is the training table
	Table   string         `json:"table"`
	Files   []File         `json:"files"`    // by location
	Rows    int64          `json:"rows"`     // of Files, by their manifests
	Specs   map[int]string `json:"specs"`    // the fields of each partition spec of Files, as "bucket[16](id)"
	LeftOut int            `json:"left_out"` // training files that filters or the sample exclude, which are not read
	Join    *Join          `json:"join,omitempty"`
}

// File describes the layout of one file.
type File struct {
	File      string `json:"file"`
	Spec      int    `json:"spec"`
	Partition string `json:"partition"` // "day = 20361, bucket[16](id) = 3"; "" without partition fields
	Rows      int64  `json:"rows"`
	Bucketed  bool   `json:"bucketed"` // whether a column of the join key has a bucket
	Wrong     int64  `json:"wrong"`    // rows that belong to another bucket
	Unread    bool   `json:"unread"`   // it could not be read to its end
	// NoChecksum reports that some page that was read has no checksum, so that damage to it
	// may go unnoticed.
	NoChecksum bool `json:"no_checksum,omitempty"`
}

// Join compares one staging table's keys with those of the training rows that pass filters
// and the sample. With a time rule, a training row matches if its key has a row within the
// tolerance, and rows of a key are duplicates if they have the same time.
type Join struct {
	TrainingRows int64   `json:"training_rows"`
	Matched      int64   `json:"matched"`
	Missing      int64   `json:"missing"`
	NullKeys     int64   `json:"null_keys"`  // of Missing
	MatchRate    float64 `json:"match_rate"` // Matched / TrainingRows; 1 without any
	MinMatch     float64 `json:"min_match"`

	Rows            int64 `json:"rows"`             // staging rows that pass the filter
	NullRows        int64 `json:"null_rows"`        // of Rows, those with a null in the key or the time, which match nothing
	Keys            int64 `json:"keys"`             // distinct keys
	DuplicateKeys   int64 `json:"duplicate_keys"`   // keys with several rows
	SurplusRows     int64 `json:"surplus_rows"`     // rows of these keys beyond the first of each
	DuplicatesAsked int64 `json:"duplicates_asked"` // of DuplicateKeys, those that a training row has
	Duplicates      []Key `json:"duplicates"`       // the first few
	OrphanKeys      int64 `json:"orphan_keys"`      // keys that no training row matches, also due to the file's bucket or partition
	OrphanRows      int64 `json:"orphan_rows"`      // rows of these keys
	Orphans         []Key `json:"orphans"`          // the first few
	Passes          int   `json:"passes,omitempty"` // how often keys were read, if they did not fit in memory at once

	Forms *Forms `json:"forms,omitempty"` // how both tables write their keys, if few rows match
}

// Key is one key and the files of its first rows.
type Key struct {
	Key   string   `json:"key"` // its values, truncated
	Rows  int64    `json:"rows"`
	Files []string `json:"files"` // of the first row, and of the second if there is one
}

// Kind is the subject of a Finding.
type Kind string

// The kinds of findings.
const (
	badLayout      Kind = "layout"      // keys are in a file of another bucket
	unreadable     Kind = "unreadable"  // a file is damaged, missing, or of an unsupported form
	duplicateKeys  Kind = "duplicates"  // keys with several rows, if the rule is error
	missingMatches Kind = "missing"     // training rows without a match, if the rule is error
	lowMatchRate   Kind = "match_rate"  // a match rate below min_match
	fewMatches     Kind = "few_matches" // few rows match, or none, without min_match
	noChecksums    Kind = "checksums"   // pages without a checksum
	promotedEntry  Kind = "promoted"    // the values of a staging entry are columns of the training table
)

// Grade is how bad a Finding is.
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
	Table   string `json:"table"`          // name of the Table; "" if it is about several
	File    string `json:"file,omitempty"` // if it is about one file
	Message string `json:"message"`
}
