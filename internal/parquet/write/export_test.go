package write

// WithRowGroupRows returns options of files whose row groups have at most this many rows.
func (o Options) WithRowGroupRows(rows int64) Options {
	o.rowGroupRows = rows
	return o
}

// WithPageBytes returns options of files whose pages end after about this many uncompressed bytes.
func (o Options) WithPageBytes(bytes int64) Options {
	o.pageBytes = bytes
	return o
}

// Levels returns the level of compression of each column.
func (c *EncodingChoice) Levels() []int {
	var levels []int
	for _, s := range c.settings {
		levels = append(levels, s.level)
	}
	return levels
}

// SetLevel makes all columns have a level of compression.
func (c *EncodingChoice) SetLevel(level int) {
	for i := range c.settings {
		c.settings[i].level = level
	}
}
