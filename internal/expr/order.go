package expr

import "strconv"

// Compare orders two values of one kind; ok is false if the kinds differ or a value
// is the zero Value.
func (v Value) Compare(w Value) (order int, ok bool) { return v.compare(w) }

// Integer returns the value of an int32, int64, date, time or timestamp column, in
// the units of Value; false for other values.
func (v Value) Integer() (int64, bool) { return v.integer, v.kind == integerValue }

// String renders the value. Two values of one column have the same text exactly if
// they are equal.
func (v Value) String() string {
	switch v.kind {
	case integerValue, booleanValue:
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
