package dataset

// Query says what one client wants to read: which rows, and how it reads them.
// ParseQuery sets its defaults; Defaults does the same for queries made in Go.
type Query struct {
	Rows
	Reading
}

// Defaults returns the query with every unset field at its default, as decoding leaves
// it. What the plan is made of comes from the cursor if there is one, and Shard too if
// there is only one. BatchRows and GlobalBatchRows stay as they are.
func (q Query) Defaults() Query {
	if len(q.Cursor) > 0 {
		q.Rows = q.resumed(q.Cursor[0].Rows)
	}
	q.Reading = q.Reading.defaults()
	q.Rows = q.Rows.defaults(q.Reading)
	return q
}
