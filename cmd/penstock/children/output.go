package children

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/penstock/penstock/flight/progress"
)

// The bounds of what is kept of a child's output, in bytes and lines.
const (
	maxResult = 256 << 10
	maxLine   = 16 << 10 // the rest of a line is dropped
	maxSaid   = 20
)

// Progress is a line of progress, as commands print it with --progress json.
type Progress struct {
	Step string `json:"step"`
	progress.Counts
	Failure *struct {
		Message string `json:"message"`
		Remedy  string `json:"remedy"`
	} `json:"failure"`
}

// output is what a child has printed.
type output struct {
	mu     sync.Mutex
	latest Progress
	failed Progress // the line that says why it has failed
	result []byte
	said   []string
	line   []byte // the current line of standard error
}

// state returns a copy.
func (o *output) state() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := State{Progress: o.latest, Result: slices.Clone(o.result), Said: slices.Clone(o.said)}
	if f := o.failed.Failure; f != nil {
		out.Failure, out.Remedy = f.Message, f.Remedy
	}
	return out
}

// resultWriter takes standard output.
type resultWriter struct{ *output }

// Write keeps what the bound leaves.
func (w resultWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result = append(w.result, p[:min(len(p), maxResult-len(w.result))]...)
	return len(p), nil
}

// lineWriter takes standard error.
type lineWriter struct{ *output }

// Write takes the lines that end in p.
func (w lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for {
		before, after, ends := bytes.Cut(p, []byte("\n"))
		w.line = append(w.line, before[:min(len(before), maxLine-len(w.line))]...)
		if !ends {
			return n, nil
		}
		w.take(w.line)
		w.line, p = w.line[:0], after
	}
}

// take keeps a line.
func (o *output) take(line []byte) {
	var at Progress
	if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &at) == nil {
		if at.Failure != nil {
			o.failed = at
			return
		}
		if at.Files > 0 || at.OfFiles > 0 || o.latest.OfFiles == 0 { // the last line of a command has no counts
			o.latest = at
		}
		return
	}
	o.said = append(o.said, string(line))
	o.said = o.said[max(0, len(o.said)-maxSaid):]
}
