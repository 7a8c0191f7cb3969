package bar

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The drawing interval of a bar, and the delay before it first appears.
const (
	drawEvery = 200 * time.Millisecond
	appears   = time.Second
)

// State is the progress of a command.
type State struct {
	Title string // the command and its subject
	Step  string
	// Done is how many units are complete, and All is how many units there are in total. All is 0
	// if the total is unknown.
	Done, All int64
	Unit      string // what is counted, in the plural, such as rows or files
	Detail    string // an addition to the counts, such as a size; may be ""
}

// Bar draws its current state on a line again and again, until End is called.
type Bar struct {
	line  *Line
	clock func() time.Time
	begun time.Time
	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	state State
	from  int64     // the value of Done when the step began
	since time.Time // when the step began
}

// Start starts drawing a bar on a line. The bar first appears after one second, so that short
// commands show none.
func Start(line *Line, clock func() time.Time) *Bar {
	now := clock()
	b := &Bar{line: line, clock: clock, begun: now, since: now, stop: make(chan struct{}), ended: make(chan struct{})}
	go b.run()
	return b
}

// Set changes the state. The bar shows the rate of the current step, so the measurement of the rate
// restarts with each step.
func (b *Bar) Set(s State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Title != b.state.Title || s.Step != b.state.Step || s.Unit != b.state.Unit {
		b.from, b.since = s.Done, b.clock()
	}
	b.state = s
}

// End stops the drawing and erases the bar. It must be called only once.
func (b *Bar) End() {
	close(b.stop)
	<-b.ended
	b.line.erase()
}

func (b *Bar) run() {
	defer close(b.ended)
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			if b.clock().Sub(b.begun) >= appears {
				b.line.draw(b.text(b.clock()))
			}
		}
	}
}

// text returns the text of the bar at a given time.
func (b *Bar) text(now time.Time) string {
	b.mu.Lock()
	s, done, inStep := b.state, b.state.Done-b.from, now.Sub(b.since)
	b.mu.Unlock()
	parts := []string{strings.TrimSuffix(strings.TrimSpace(s.Title+": "+s.Step), ":")}
	if s.All > 0 {
		share := min(float64(s.Done)/float64(s.All), 1)
		parts = append(parts, fmt.Sprintf("%3.0f %% [%s]", 100*share, meter(share)))
	}
	switch {
	case s.All > 0:
		parts = append(parts, fmt.Sprintf("%s of %s %s", digits(s.Done), digits(s.All), s.Unit))
	case s.Done > 0:
		parts = append(parts, digits(s.Done)+" "+s.Unit)
	}
	if s.Detail != "" {
		parts = append(parts, s.Detail)
	}
	parts = append(parts, pace(s, done, inStep, now.Sub(b.begun))...)
	return strings.Join(parts, "  ")
}

// pace returns the rate of a step, if it is known, and then a time: the remaining time of the step
// or, if that is unknown, the time since the command began.
func pace(s State, done int64, inStep, all time.Duration) []string {
	elapsed := all.Truncate(time.Second).String()
	if done <= 0 || inStep < appears {
		return []string{elapsed}
	}
	rate := float64(done) / inStep.Seconds()
	out := []string{short(rate) + " " + s.Unit + "/s"}
	if s.All > 0 && s.Done <= s.All {
		left := time.Duration(float64(s.All-s.Done) / rate * float64(time.Second))
		return append(out, left.Round(time.Second).String()+" left")
	}
	return append(out, elapsed)
}

// meterWidth is the number of characters of a meter.
const meterWidth = 20

// meter returns a picture of a share between 0 and 1.
func meter(share float64) string {
	full := int(share * meterWidth)
	return strings.Repeat("#", full) + strings.Repeat(".", meterWidth-full)
}

// digits formats a number with commas between groups of three digits.
func digits(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// short formats a number with at most three digits and, if it is large, a unit prefix (k, M or G).
func short(v float64) string {
	letters := []string{"", " k", " M", " G"}
	at := 0
	for v >= 999.5 && at < len(letters)-1 {
		v, at = v/1000, at+1
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%s", v, letters[at])
	}
	return fmt.Sprintf("%.0f%s", v, letters[at])
}
