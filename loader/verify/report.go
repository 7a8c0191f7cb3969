package verify

import "github.com/penstock/penstock/loader/dataset"

// Report is what a verification found. Findings are what breaks a stream, or a
// rule of the dataset; everything else is there to be looked at.
type Report struct {
	Dataset  string      `json:"dataset"` // "" if the query carries it
	Plan     string      `json:"plan"`
	Pin      dataset.Pin `json:"pin"`
	Tables   []Table     `json:"tables"` // the training table, then the staging tables as the dataset lists them
	Findings []Finding   `json:"findings"`
}

// Clean says whether nothing was found.
func (v *Report) Clean() bool { return len(v.Findings) == 0 }

// Table is one table's files and, of a staging table, how its keys compare with
// those of the training rows.
type Table struct {
	Name    string         `json:"name"` // of the staging entry; "training" with a null Join is the training table
	Table   string         `json:"table"`
	Files   []File         `json:"files"`    // by location
	Rows    int64          `json:"rows"`     // of Files, as the manifests count them
	Specs   map[int]string `json:"specs"`    // the fields of each partition spec of Files, as "bucket[16](id)"
	LeftOut int            `json:"left_out"` // training files that filters or the sample leave out: they are not read
	Join    *Join          `json:"join,omitempty"`
}

// File is the layout of one file.
type File struct {
	File      string `json:"file"`
	Spec      int    `json:"spec"`
	Partition string `json:"partition"` // "day = 20361, bucket[16](id) = 3"; "" without partition fields
	Rows      int64  `json:"rows"`
	Bucketed  bool   `json:"bucketed"` // whether a column of the join key has a bucket
	Wrong     int64  `json:"wrong"`    // rows of another bucket
	Unread    bool   `json:"unread"`   // it could not be read to its end
	// NoChecksum says that a page which was read has no checksum: damage to it
	// may go unseen.
	NoChecksum bool `json:"no_checksum,omitempty"`
}

// Join compares one staging table's keys with those of the training rows that
// filters and the sample leave. With a rule on times a training row matches
// where its key has a row of a fitting time, and rows of a key are duplicates if
// they are of one time.
type Join struct {
	TrainingRows int64   `json:"training_rows"`
	Matched      int64   `json:"matched"`
	Missing      int64   `json:"missing"`
	NullKeys     int64   `json:"null_keys"`  // of Missing
	MatchRate    float64 `json:"match_rate"` // Matched of TrainingRows; 1 without any
	MinMatch     float64 `json:"min_match"`

	Rows            int64 `json:"rows"`             // staging rows that count
	NullRows        int64 `json:"null_rows"`        // of Rows, those with a null in the key or the time: they match nothing
	Keys            int64 `json:"keys"`             // different ones
	DuplicateKeys   int64 `json:"duplicate_keys"`   // keys of several rows
	SurplusRows     int64 `json:"surplus_rows"`     // rows of these keys beyond the first of each
	DuplicatesAsked int64 `json:"duplicates_asked"` // of DuplicateKeys, those that a training row asks for
	Duplicates      []Key `json:"duplicates"`       // the first few
	OrphanKeys      int64 `json:"orphan_keys"`      // keys that no training row finds, by the file's bucket or its partition too
	OrphanRows      int64 `json:"orphan_rows"`      // rows of these
	Orphans         []Key `json:"orphans"`          // the first few
	Passes          int   `json:"passes,omitempty"` // how often keys were read, where memory did not hold them at once
}

// Key is one key and where its first rows lie.
type Key struct {
	Key   string   `json:"key"` // its values, shortened
	Rows  int64    `json:"rows"`
	Files []string `json:"files"` // of the first row, and of the second if there is one
}

// Kind names what a Finding is about.
type Kind string

// The kinds of findings.
const (
	badLayout      Kind = "layout"     // keys lie in a file of another bucket
	unreadable     Kind = "unreadable" // a file is damaged, gone, or of a form that is not served
	duplicateKeys  Kind = "duplicates" // keys of several rows, where the rule is error
	missingMatches Kind = "missing"    // training rows without a match, where the rule is error
	lowMatchRate   Kind = "match_rate" // fewer matches than min_match
)

// Finding is something that breaks a stream, or a rule of the dataset.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Table   string `json:"table"`          // name of the Table
	File    string `json:"file,omitempty"` // where it is one file
	Message string `json:"message"`
}
