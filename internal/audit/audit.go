// Package audit writes the audit log: a line of JSON for each stream and each refusal, with
// the subject, the tables and the numbers of rows and bytes.
//
// A line has no secret and no value of a row: neither tokens, nor filters, nor texts of errors. A line that cannot be written
// is returned as an error and logged whole, and Err then fails until a line is written, so that the server admits no stream
// without an audit line.
package audit

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Event is the kind of a line.
type Event string

// The events.
const (
	Stream  Event = "stream" // a stream of batches that began
	Verify  Event = "verify" // a check of tables, whose report may have keys of rows
	Diff    Event = "diff"   // a comparison of two snapshots of a table, whose result may have keys of rows
	Stats   Event = "stats"  // statistics of columns, whose result may have values of rows, and Keep those that are kept with the table
	Keep    Event = "keep"
	Stage   Event = "stage"   // rows that a client sent to a table
	Publish Event = "publish" // a move of the main branch of a table, and Undo one that was taken back
	Undo    Event = "undo"
	Compact Event = "compact" // files of a table that were rewritten
	Restore Event = "restore" // rows of an earlier snapshot that a table has again
	Orphans Event = "orphans" // files without a snapshot that were listed or removed
	Promote Event = "promote" // columns that a training table gets, and Demote columns that were dropped
	Demote  Event = "demote"
	Refusal Event = "refusal" // a call that was refused, or a stream that ended before it began
)

// Line is a line of the log.
type Line struct {
	Time    time.Time       `json:"time"`  // of the end
	Event   Event           `json:"audit"` // distinguishes the line from those of other logs in the same file
	Call    string          `json:"call"`  // the method of Flight, or the action
	Subject string          `json:"subject,omitempty"`
	Host    string          `json:"host,omitempty"` // omitted for Unix domain sockets
	Dataset string          `json:"dataset,omitempty"`
	Inline  bool            `json:"inline,omitempty"` // the query carried its dataset
	Job     string          `json:"job,omitempty"`    // the label of the query
	Plan    string          `json:"plan,omitempty"`
	Tables  []TableSnapshot `json:"tables,omitempty"` // the training table, and then the staging tables
	Columns int             `json:"columns,omitempty"`
	Token   string          `json:"token,omitempty"` // of a change
	Shard   string          `json:"shard,omitempty"` // as index/of
	Rows    int64           `json:"rows"`
	Batches int64           `json:"batches"`
	Bytes   int64           `json:"bytes"` // on the wire and in mapped memory
	Seconds float64         `json:"seconds"`
	End     string          `json:"end"`            // ok, cancelled, deadline or a kind of failure
	More    int64           `json:"more,omitempty"` // refusals without a subject since the last line of one that have no line of their own
}

// TableSnapshot is a table, and the snapshot of it that was read.
type TableSnapshot struct {
	Table    string `json:"table"`
	Snapshot int64  `json:"snapshot,string"` // as text: it has more digits than many readers of JSON keep
}

// Limits of lines about clients that have no subject: anyone can cause those.
const (
	anonymousBurst = 100
	anonymousEvery = 100 * time.Millisecond
)

// patience is how long a line waits for those before it, on a disk that hangs.
const patience = 5 * time.Second

// Options configure a Log.
type Options struct {
	Path   string    // of the file
	Stderr io.Writer // is written instead if Path is empty
	Clock  func() time.Time
	Logger *slog.Logger // gets the lines that cannot be written
}

// Log writes lines. It is safe for concurrent use. The zero of *Log, nil, writes nothing.
type Log struct {
	options  Options
	patience time.Duration         // the constant, except in tests
	failed   atomic.Pointer[error] // why the last line was not written; nil if it was

	turn chan struct{} // a lock of the fields below
	file *os.File      // nil if it could not be opened again
	torn bool          // a part of a line was written

	allowed  float64   // lines about clients without a subject that may be written now
	refilled time.Time // when allowed was computed
	more     int64     // see Line.More
}

// Open opens a log. A file is created for this user alone, and appended to. It must be a regular file that no other user may
// write.
func Open(o Options) (*Log, error) {
	l := &Log{options: o, patience: patience, turn: make(chan struct{}, 1), allowed: anonymousBurst, refilled: o.Clock()}
	if o.Path == "" {
		return l, nil
	}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes the file. A line for the refusals that were only counted is written first.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	if !l.take() {
		return fault.New(fault.Unavailable, "the disk of the audit log hangs")
	}
	defer l.give()
	var err error
	if l.more > 0 {
		err = l.write(Line{Time: l.options.Clock().UTC(), Event: Refusal, End: fault.Unauthenticated.String(), More: l.more})
	}
	if l.file != nil {
		_ = l.file.Close() // each line was written
		l.file = nil
	}
	return err
}

// Err returns why the last line could not be written, or nil.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Add writes a line, and sets its time. Lines about refused clients that have no subject are limited: those beyond are counted in
// the next one. A line that cannot be written is logged.
func (l *Log) Add(line Line) {
	if l == nil {
		return
	}
	now := l.options.Clock()
	line.Time = now.UTC()
	if !l.take() {
		_ = l.lost(line, fault.New(fault.Unavailable, "its disk hangs"))
		return
	}
	defer l.give()
	if line.Event == Refusal && line.Subject == "" {
		if !l.allow(now) {
			l.more++
			return
		}
		line.More, l.more = l.more, 0
	}
	_ = l.write(line) // it logs failures
}

// take waits for the turn to write, unless the disk is known to hang. The caller gives it back.
func (l *Log) take() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
	}
	if l.failed.Load() != nil {
		return false
	}
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	select {
	case l.turn <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// give ends a turn.
func (l *Log) give() { <-l.turn }

// allow takes one of the lines that may be written about clients without a subject. It is the caller's turn.
func (l *Log) allow(now time.Time) bool {
	l.allowed = min(anonymousBurst, l.allowed+float64(now.Sub(l.refilled))/float64(anonymousEvery))
	l.refilled = now
	if l.allowed < 1 {
		return false
	}
	l.allowed--
	return true
}

// write writes a line, and logs it if it cannot be written. It is the caller's turn.
func (l *Log) write(line Line) error {
	text, err := json.Marshal(line)
	if err == nil {
		err = l.put(append(text, '\n'))
	}
	if err != nil {
		return l.lost(line, err)
	}
	l.failed.Store(nil)
	return nil
}

// lost logs a line that was not written, and returns why, as Err does from then on.
func (l *Log) lost(line Line, err error) error {
	text, _ := json.Marshal(line) //nolint:errchkjson // it has texts and numbers
	l.options.Logger.Error("the audit log cannot be written: new streams are refused until it can", "file", l.options.Path, "line", string(text), "error", err)
	err = fault.New(fault.Unavailable, "the audit log cannot be written: %w", err)
	l.failed.Store(&err)
	return err
}

// put writes text to the file. It is the caller's turn.
func (l *Log) put(text []byte) error {
	if l.options.Path == "" {
		_, err := l.options.Stderr.Write(text)
		return err
	}
	if err := l.current(); err != nil {
		return err
	}
	if l.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := l.file.Write(text)
	l.torn = err != nil && (l.torn || n > 0)
	return err
}

// current makes the file the one that has the path, which is another one after a rotation. It is the caller's turn.
func (l *Log) current() error {
	named, err := os.Stat(l.options.Path)
	if err == nil && l.file != nil {
		open, failed := l.file.Stat()
		if failed == nil && os.SameFile(named, open) {
			return nil
		}
	}
	return l.reopen()
}

// reopen opens the file that has the path. It is the caller's turn.
func (l *Log) reopen() error {
	if l.file != nil {
		_ = l.file.Close() // each line was written
		l.file, l.torn = nil, false
	}
	file, err := open(l.options.Path)
	if err != nil {
		return err
	}
	l.file = file
	return nil
}

// othersMayWrite are the permission bits of users other than the owner who may write.
const othersMayWrite = 0o022

// open opens a file for appending, and creates it for this user alone.
func open(path string) (*os.File, error) {
	refused := func(format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).In("", path).WithRemedy("set audit_log to a file that this user alone may write, or to stderr")
	}
	if stat, err := os.Stat(path); err == nil && !stat.Mode().IsRegular() { // an open could wait
		return nil, refused("audit_log: %s is not a regular file", path)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, refused("audit_log: %w", err)
	}
	stat, err := file.Stat()
	switch {
	case err != nil:
		err = refused("audit_log: %w", err)
	case !stat.Mode().IsRegular():
		err = refused("audit_log: %s is not a regular file", path)
	case stat.Mode().Perm()&othersMayWrite != 0:
		err = refused("audit_log: other users may write %s (mode %s)", path, stat.Mode())
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}
