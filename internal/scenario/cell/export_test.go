package cell

// Exported to tests.
const (
	IsFalse   = isFalse
	IsUnknown = isUnknown
	IsTrue    = isTrue
)

// Truth is a truth value of SQL.
type Truth = truth

// Truth exports truth to tests.
func (t *Filter) Truth(row Row) Truth { return t.truth(row) }

// Murmur3 exports murmur3 to tests.
var Murmur3 = murmur3
