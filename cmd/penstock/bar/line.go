// Package bar draws a progress bar on the last line of a terminal, and erases the bar before other
// output is written.
package bar

import (
	"io"
	"sync"
)

// Line is the last line of a terminal. It is safe for concurrent use.
type Line struct {
	out   io.Writer
	width func() int // returns the number of characters in a line; 0: unknown

	mu    sync.Mutex
	drawn bool
}

// NewLine returns the last line of the terminal that out writes to. The function width returns the
// current width of the terminal, or 0 if the width is unknown.
func NewLine(out io.Writer, width func() int) *Line { return &Line{out: out, width: width} }

// Control sequences of terminals.
const (
	eraseLine  = "\r\x1b[K"
	unknownFit = 80 // how many characters fit into a line if its width is unknown
)

// Before returns a writer that erases the bar and then writes to w. All other output that may reach
// the terminal must go through such writers.
func (l *Line) Before(w io.Writer) io.Writer { return writer{line: l, to: w} }

type writer struct {
	line *Line
	to   io.Writer
}

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	w.line.eraseLocked()
	return w.to.Write(p)
}

// draw replaces the text on the line. It cuts a text that is too long, because a terminal cannot
// erase a line that it has wrapped.
func (l *Line) draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fit := l.width()
	if fit <= 0 {
		fit = unknownFit
	}
	runes := []rune(text)
	_, _ = io.WriteString(l.out, eraseLine+string(runes[:min(len(runes), fit-1)]))
	l.drawn = true
}

// erase removes the text from the line.
func (l *Line) erase() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.eraseLocked()
}

func (l *Line) eraseLocked() {
	if l.drawn {
		_, _ = io.WriteString(l.out, eraseLine)
		l.drawn = false
	}
}
