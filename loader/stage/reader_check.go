package stage

import "github.com/penstock/penstock/internal/fault"

// ReaderCheck describes how a dataset reads a table after rows were staged to it. There is one for
// each entry of a dataset that joins the table, and one for a dataset whose training table it is.
type ReaderCheck struct {
	Dataset string `json:"dataset"`
	Entry   string `json:"entry,omitempty"` // "": the table is the training table
	// Branch is the branch that was read although the dataset reads main; "": the dataset was read as it is.
	Branch string `json:"branch,omitempty"`
	// Rows is the number of sampled training rows, and Matched the number of them that match. Both
	// are 0 unless the match rate was measured.
	Rows    int64 `json:"rows"`
	Matched int64 `json:"matched"`
	// NotMeasured is why the match rate is unknown although the dataset can perhaps be read, such as
	// "not measured within 10 s".
	NotMeasured string `json:"not_measured,omitempty"`
	Warning     string `json:"warning,omitempty"` // why the match rate is probably wrong
	// Failure is why the dataset cannot be read; nil: nothing was found. If another entry is the reason, the match rate of this
	// entry may be known nevertheless.
	Failure *ReaderFailure `json:"failure,omitempty"`
}

// ReaderFailure is why a dataset cannot be read.
type ReaderFailure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Before is true if the dataset could not be read before the change either.
	Before bool `json:"before,omitempty"`
}

// FailureOf describes an error, without secrets.
func FailureOf(err error) *ReaderFailure {
	e := fault.As(err)
	return &ReaderFailure{Kind: e.Kind.String(), Message: fault.Redact(e.Cause()), Remedy: fault.Redact(e.Remedy)}
}

// Broken reports whether the change has made the dataset unreadable.
func (c ReaderCheck) Broken() bool { return c.Failure != nil && !c.Failure.Before }
