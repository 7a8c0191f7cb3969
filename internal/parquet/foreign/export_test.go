package foreign

// IsDecoded reports whether package parquet decodes the file that was opened last. It is called before
// the first row is read.
func (r *Rows) IsDecoded() bool { return r.input.open.decoded != nil }
