package write

// EncodingChoice is the encodings of a file, for later files with rows alike: theirs are not measured. The
// first file with enough rows makes the choice. The zero value is not made yet. It is not safe for
// concurrent use.
type EncodingChoice struct{ settings []setting }

// minChoiceRows is the number of rows from which on a file chooses for others.
const minChoiceRows = 1000

// made returns the choice; nil: there is none yet.
func (c *EncodingChoice) made() []setting {
	if c == nil {
		return nil
	}
	return c.settings
}

// keep makes the choice, if a file had enough rows to choose by.
func (c *EncodingChoice) keep(settings []setting, rows int64) {
	if c != nil && rows >= minChoiceRows {
		c.settings = settings
	}
}
