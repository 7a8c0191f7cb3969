package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/bar"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 5 * time.Second

// The values of --progress, the name of the step that reads rows, and the names of the two steps
// with which commands end.
const (
	progressText = "text"
	progressJSON = "json"

	stepRead   = "read"
	stepDone   = "done"
	stepFailed = "failed"
)

// progressFlag adds the flag of commands that write.
func progressFlag(c *cobra.Command) *string {
	return cmdline.Text(c, "progress", "text|json", "how far the command is, on standard error: a bar on a terminal, and otherwise lines of text (the default), or lines of JSON")
}

// commandProgress prints a command's progress to standard error. The form is the same for all
// commands:
//
//	g, err := p.progressOf(*flag, "stage", table)  // before the command starts work
//	g.report(progress.Message{Step: "read"})        // when a step begins, and whenever the counts change
//	return g.end(err)                              // once, with the error of the command
//
// On a terminal, a bar shows the latest counts. Otherwise, a line is printed at most every 5
// seconds. With --progress json, there are also lines at the start of each step, for the last
// counts of each step, and at the end of the command. If the command fails, its last line describes
// the failure. commandProgress is not safe for concurrent use.
type commandProgress struct {
	p        process
	asJSON   bool
	bar      *bar.Bar     // on a terminal; otherwise nil
	line     progressLine // the current line, with the latest counts
	unsaid   bool         // whether the counts of line have changed since the last printed line
	begun    time.Time
	lastLine time.Time
}

// progressLine is a line of JSON.
type progressLine struct {
	Time    time.Time `json:"time"`
	Command string    `json:"command"`
	Table   string    `json:"table,omitempty"`
	Step    string    `json:"step"`
	// Seconds is the time since the command began.
	Seconds float64 `json:"seconds"`
	progress.Counts
	Failure *progressFailure `json:"failure,omitempty"`
}

// progressFailure is the failure of a command.
type progressFailure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Uncertain is true if it is unknown whether the change was committed.
	Uncertain bool `json:"uncertain,omitempty"`
}

// progressOf returns the progress of a command. flag is the value of the command's flag --progress.
func (p process) progressOf(flag, command, table string) (*commandProgress, error) {
	if flag != "" && flag != progressText && flag != progressJSON {
		return nil, cmdline.Errorf("--progress %q is neither %s nor %s", flag, progressText, progressJSON)
	}
	now := p.clock()
	g := &commandProgress{p: p, asJSON: flag == progressJSON, begun: now, lastLine: now, line: progressLine{Command: command, Table: table}}
	if p.line != nil && !g.asJSON {
		g.bar = bar.Start(p.line, p.clock)
		g.draw()
	}
	return g, nil
}

// readingProgress returns the progress of a command that reads a dataset. It shows a bar on a terminal, and nothing elsewhere.
func (p process) readingProgress(command, dataset string) *commandProgress {
	p.stderr = io.Discard
	g, _ := p.progressOf("", command, dataset)
	return g
}

// report shows the progress that a server sent.
func (g *commandProgress) report(now progress.Message) {
	if now.Table != "" && now.Table != g.line.Table {
		g.of(now.Table)
	}
	g.step(now.Step)
	g.at(now.Counts)
}

// of starts the progress of another table that the same command changes.
func (g *commandProgress) of(table string) {
	g.flush()
	g.line.Table, g.line.Counts = table, progress.Counts{}
}

// step begins a step, with all counts at zero. It does nothing if the step has begun already.
func (g *commandProgress) step(name string) {
	if g.line.Step == name {
		return
	}
	g.flush()
	g.line.Step, g.line.Counts = name, progress.Counts{}
	g.draw()
	if g.asJSON {
		g.say()
	}
}

// at sets the counts of the step. If there is no bar, at prints a line unless the previous line was
// printed less than progressEvery ago.
func (g *commandProgress) at(counts progress.Counts) {
	g.unsaid = g.unsaid || counts != g.line.Counts
	g.line.Counts = counts
	if g.draw() {
		return
	}
	if g.p.clock().Sub(g.lastLine) >= progressEvery {
		g.say()
	}
}

// rows sets the number of rows that the step has read. g may be nil.
func (g *commandProgress) rows(read int64) {
	if g != nil {
		counts := g.line.Counts
		counts.RowsRead = read
		g.at(counts)
	}
}

// pause erases the bar, so that the bar does not overwrite a question. The returned function shows
// the bar again.
func (g *commandProgress) pause() (resume func()) {
	if g.bar == nil {
		return func() {}
	}
	g.bar.End()
	g.bar = nil
	return func() {
		g.bar = bar.Start(g.p.line, g.p.clock)
		g.draw()
	}
}

// end reports the end of the command and returns err. g may be nil.
func (g *commandProgress) end(err error) error {
	if g == nil {
		return err
	}
	if g.bar != nil {
		g.bar.End()
		g.bar = nil
	}
	g.flush()
	g.line.Counts, g.line.Step = progress.Counts{}, stepDone
	if err != nil {
		e := fault.As(err)
		g.line.Step = stepFailed
		g.line.Failure = &progressFailure{
			Kind: e.Kind.String(), Message: fault.Redact(e.Cause()), Remedy: fault.Redact(e.Remedy), Uncertain: tablecommit.Uncertain(err),
		}
	}
	if g.asJSON {
		g.say()
	}
	return err
}

// flush prints the counts that were not printed yet, if the progress is JSON. Otherwise it prints
// nothing.
func (g *commandProgress) flush() {
	if g.asJSON && g.unsaid {
		g.say()
	}
}

// say prints a line.
func (g *commandProgress) say() {
	now := g.p.clock()
	g.lastLine, g.unsaid = now, false
	if !g.asJSON {
		g.p.note("%s\n", g.line.text())
		return
	}
	g.line.Time, g.line.Seconds = now.UTC(), now.Sub(g.begun).Seconds()
	if text, err := json.Marshal(g.line); err == nil {
		g.p.note("%s\n", text)
	}
}

// draw passes the latest counts to the bar, and reports whether there is a bar.
func (g *commandProgress) draw() bool {
	if g.bar != nil {
		g.bar.Set(g.line.state())
	}
	return g.bar != nil
}

// state converts the line to the state of a bar. The bar shows rows if their total is known, or if
// no total is known. Otherwise it shows files or bytes, whichever total is known.
func (l progressLine) state() bar.State {
	out := bar.State{Title: strings.TrimSpace(l.Command + " " + l.Table), Step: l.Step, Unit: "rows"}
	rows, all := l.RowsRead+l.RowsWritten, l.OfRowsRead+l.OfRowsWritten
	switch {
	case l.Step == datafile.WriteFiles.String(): // the rows were read in an earlier step
		rows, all = l.RowsWritten, l.OfRowsWritten
	case l.OfRowsWritten == 0:
		rows, all = l.RowsRead, l.OfRowsRead
	}
	switch {
	case all > 0 || l.OfFiles+l.OfBytes == 0:
		out.Done, out.All = rows, all
	case l.OfFiles > 0:
		out.Done, out.All, out.Unit = l.Files, l.OfFiles, "files"
	default:
		out.Done, out.All, out.Unit = l.Bytes, l.OfBytes, "bytes"
	}
	if l.Bytes > 0 && out.Unit != "bytes" {
		out.Detail = fault.Size(l.Bytes)
	}
	return out
}

// text returns the line in human-readable form.
func (l progressLine) text() string {
	var parts []string
	add := func(what string, done, all int64) {
		switch {
		case all > 0:
			parts = append(parts, fmt.Sprintf("%s %d of %d", what, done, all))
		case done > 0:
			parts = append(parts, fmt.Sprintf("%s %d", what, done))
		}
	}
	add("rows read", l.RowsRead, l.OfRowsRead)
	add("rows written", l.RowsWritten, l.OfRowsWritten)
	add("files", l.Files, l.OfFiles)
	switch {
	case l.OfBytes > 0:
		parts = append(parts, fault.Size(l.Bytes)+" of "+fault.Size(l.OfBytes))
	case l.Bytes > 0:
		parts = append(parts, fault.Size(l.Bytes))
	}
	return fmt.Sprintf("table %s, %s: %s", l.Table, l.Step, strings.Join(parts, ", "))
}
