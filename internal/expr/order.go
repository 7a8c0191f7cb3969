package expr

import "strconv"

// Compare orders two values of one kind; ok is false for others, and where
// one is no value.
func (v Value) Compare(w Value) (order int, ok bool) { return v.compare(w) }

// Integer returns the value of an int32, int64, date, time or timestamp
// column, in the units of Value; false for others.
func (v Value) Integer() (int64, bool) { return v.integer, v.kind == integerValue }

// String renders the value so that two values of one column have one text
// exactly if they are equal.
func (v Value) String() string {
	switch v.kind {
	case integerValue, truthValue:
		return strconv.FormatInt(v.integer, 10)
	case floatValue:
		return strconv.FormatFloat(v.float, 'g', -1, 64)
	case textValue:
		return strconv.Quote(v.text)
	case decimalValue:
		return v.unscaled.String() + "e" + strconv.Itoa(-v.scale)
	case noValue:
	}
	return "none"
}
