package dataset

import "fmt"

// About describes a field of a query, apart from access to its value.
type About struct {
	Name     string   // in queries and cursors
	Also     []string // names of the same thing in other programs, in lower case
	Required bool
	Optional bool // cursors and differences leave the field out if it is not set
	Flag     Flag // that sets the field; without Help: none

	// Values are whole numbers from Low to High, one of several words, or labels (see JobLabel). Otherwise they
	// have a form of their own, and package decode has a function for the field.
	Number    bool
	Low, High int64
	Words     []string
	Label     bool

	perStream bool   // streams that share rows may differ in it
	after     string // the field that it follows in canonical texts; "": the one before it in QueryFields
}

// Flag describes the flag of a command that sets a field. Its name is that of the field, with
// hyphens.
type Flag struct {
	Shape string // of the value, such as FILE; a number has the name of its Go type
	Help  string
}

// QueryField describes one field of S, which is Rows, Reading or Query: what commands, clients and pages
// have to know about it, and how its values are decoded, compared, copied and written.
type QueryField[S any] struct {
	About

	SetNumber func(into *S, value int64)  // of a number
	SetText   func(into *S, value string) // of a word or label

	equal      func(a, b *S) bool
	assign     func(into, from *S)
	form       func(s *S) any // the value to write as JSON
	setDefault func(s *S)     // if the field is not set; nil: its default depends on other fields, or is to be unset
}

// isSet reports whether s has a value of the field.
func (f QueryField[S]) isSet(s *S) bool { return !f.equal(s, new(S)) }

// text returns the value as errors show it, or "" for an optional field that is not set.
func (f QueryField[S]) text(s *S) string {
	if f.Optional && !f.isSet(s) {
		return ""
	}
	value := f.form(s)
	if text, ok := value.(string); ok {
		return text
	}
	return string(encode(value))
}

// setDefaults sets each unset field that has a default of its own.
func setDefaults[S any](s *S, fields []QueryField[S]) {
	for _, f := range fields {
		if f.setDefault != nil {
			f.setDefault(s)
		}
	}
}

// number describes a field that is a whole number.
func number[S any, N int | int64](about About, low, high int64, at func(*S) *N) QueryField[S] {
	about.Number, about.Low, about.High, about.Flag.Shape = true, low, high, fmt.Sprintf("%T", N(0))
	f := scalar(about, at, func(v N) any { return v })
	f.SetNumber = func(into *S, value int64) { *at(into) = N(value) }
	return f
}

// word describes a field that is one of several words. A default of "" depends on other fields.
func word[S any, W ~string](about About, at func(*S) *W, byDefault W, words ...W) QueryField[S] {
	for _, w := range words {
		about.Words = append(about.Words, string(w))
	}
	f := text(about, at)
	f.setDefault = func(s *S) {
		if *at(s) == "" {
			*at(s) = byDefault
		}
	}
	return f
}

// label describes a field that is a label.
func label[S any](about About, at func(*S) *string) QueryField[S] {
	about.Label = true
	return text(about, at)
}

// text describes a field that is a text.
func text[S any, T ~string](about About, at func(*S) *T) QueryField[S] {
	f := scalar(about, at, func(v T) any { return string(v) })
	f.SetText = func(into *S, value string) { *at(into) = T(value) }
	return f
}

// scalar describes a field whose values are compared by ==.
func scalar[S any, V comparable](about About, at func(*S) *V, form func(V) any) QueryField[S] {
	f := structured(about, at, form)
	f.equal = func(a, b *S) bool { return *at(a) == *at(b) }
	return f
}

// structured describes a field whose values are compared by their JSON.
func structured[S, V any](about About, at func(*S) *V, form func(V) any) QueryField[S] {
	return QueryField[S]{
		About:  about,
		equal:  func(a, b *S) bool { return string(encode(form(*at(a)))) == string(encode(form(*at(b)))) },
		assign: func(into, from *S) { *at(into) = *at(from) },
		form:   func(s *S) any { return form(*at(s)) },
	}
}

// fieldsOf converts the fields of a part of a value to fields of the value, without the functions that set them.
func fieldsOf[S, Part any](fields []QueryField[Part], part func(*S) *Part) []QueryField[S] {
	out := make([]QueryField[S], len(fields))
	for i, f := range fields {
		out[i] = QueryField[S]{
			About:  f.About,
			equal:  func(a, b *S) bool { return f.equal(part(a), part(b)) },
			assign: func(into, from *S) { f.assign(part(into), part(from)) },
			form:   func(s *S) any { return f.form(part(s)) },
		}
	}
	return out
}
