package write

import "sync"

// EncodingChoice lets several files with similar rows use the same encodings. The first file with
// enough rows measures encodings and makes the choice; files that start after that use it without
// measuring. In the zero value, the choice is not made yet. It is safe for concurrent use. A caller
// whose files must not depend on timing starts the other files after the choice was made.
type EncodingChoice struct {
	mu       sync.Mutex
	settings []setting
	done     chan struct{} // nil: Made was not called
}

// MinChoiceRows is the minimum number of rows of a file that makes the choice for others.
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

// made returns the chosen settings, or nil if the choice was not made yet.
func (c *EncodingChoice) made() []setting {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings
}

// keep makes the choice with the settings of a file. It does nothing if the file has too few rows,
// or if the choice was made before.
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
