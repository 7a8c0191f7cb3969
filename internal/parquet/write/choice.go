package write

import "sync"

// EncodingChoice is the encodings of a file, for other files with rows alike: theirs are not measured. The
// first file with enough rows makes the choice. The zero value is not made yet. It is safe for concurrent
// use; the caller starts other files after the choice is made, if their encodings must not depend on time.
type EncodingChoice struct {
	mu       sync.Mutex
	settings []setting
	done     chan struct{} // nil: Made was not called
}

// MinChoiceRows is the number of rows from which on a file chooses for others.
const MinChoiceRows = 1000

// Made returns a channel that is closed when the choice is made.
func (c *EncodingChoice) Made() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.settings != nil {
			close(c.done)
		}
	}
	return c.done
}

// made returns the choice; nil: there is none yet.
func (c *EncodingChoice) made() []setting {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings
}

// keep makes the choice, if a file had enough rows to choose by and none did before.
func (c *EncodingChoice) keep(settings []setting, rows int64) {
	if c == nil || rows < MinChoiceRows {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settings != nil {
		return
	}
	c.settings = settings
	if c.done != nil {
		close(c.done)
	}
}
