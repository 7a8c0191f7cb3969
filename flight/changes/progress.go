package changes

import (
	"time"

	"github.com/penstock/penstock/loader/datafile"
)

// progressEvery is the time between two messages with the counts of one step.
const progressEvery = time.Second

// Progress is the progress of a change of a table.
type Progress struct {
	Table string `json:"table,omitempty"` // of a call that changes several, or that does not name its table
	Step  string `json:"step"`
	ProgressCounts
}

// ProgressCounts counts the finished work of a step.
type ProgressCounts struct {
	// Counts whose names begin with Of are totals for the step, or 0 if unknown.
	RowsRead      int64 `json:"rows_read,omitempty"`
	OfRowsRead    int64 `json:"of_rows_read,omitempty"`
	RowsWritten   int64 `json:"rows_written,omitempty"`
	OfRowsWritten int64 `json:"of_rows_written,omitempty"`
	Files         int64 `json:"files,omitempty"`
	OfFiles       int64 `json:"of_files,omitempty"`
	Bytes         int64 `json:"bytes,omitempty"`
	OfBytes       int64 `json:"of_bytes,omitempty"`
}

// Messages sends a client the progress of its call: when a step begins, periodically while its
// counts grow, and when the step ends. It is not safe for concurrent use.
type Messages struct {
	send   func(Progress) error
	quiet  bool // the client wants none
	clock  func() time.Time
	every  time.Duration
	last   Progress // as the change reported it
	sentAt time.Time
	unsent bool // last was not sent
}

// messages returns the Messages of a call.
func (w *Service) messages(send func(Progress) error) *Messages {
	return &Messages{send: send, clock: w.clock, every: w.progressEvery}
}

// wanted sets whether the client wants messages.
func (p *Messages) wanted(yes bool) { p.quiet = !yes }

// At reports the progress of the call.
func (p *Messages) At(now Progress) {
	begins := now.Step != p.last.Step || now.Table != p.last.Table
	if begins {
		p.flush()
	}
	p.unsent = p.unsent || now != p.last
	p.last = now
	if begins || p.clock().Sub(p.sentAt) >= p.every {
		p.flush()
	}
}

// flush sends the last reported progress if it was not sent yet.
func (p *Messages) flush() {
	if p.quiet || !p.unsent {
		return
	}
	p.unsent, p.sentAt = false, p.clock()
	_ = p.send(p.last) // if the client has gone, the context of the call ends
}

// writing reports the progress of a write.
func (p *Messages) writing(at datafile.Progress) { p.At(writeProgress(at)) }

func writeProgress(at datafile.Progress) Progress {
	return Progress{Step: at.Step.String(), ProgressCounts: ProgressCounts{
		RowsRead: at.RowsRead, OfRowsRead: at.OfRowsRead, RowsWritten: at.RowsWritten, OfRowsWritten: at.OfRowsWritten,
		Files: int64(at.Files), Bytes: at.Bytes,
	}}
}
