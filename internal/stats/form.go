package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Form says how a text is written: which kinds of characters it has, and how long it is if most texts have one length. Texts of one
// form may be keys of one kind. A form names no text.
type Form struct {
	Lower, Upper, Digits bool
	Other                bool   // letters without case, control characters, or bytes that are no text
	Padded               bool   // white space at the start or the end
	Zeros                bool   // the only digits are at the end, and begin with a zero that is not the last of them
	Marks                string // the distinct other characters, in order: at most maxMarks, or else manyMarks
	Width                int    // the usual number of characters if the text has it; 0 if there is no usual number, and otherwise -1
}

const (
	maxMarks  = 3
	manyMarks = "\x00"
	// unusual is the reciprocal of the greatest share of texts that do not have the usual length.
	unusual = 100
	// maxForms is the maximum number of forms that are counted, and formMemory the bytes that a form takes.
	maxForms   = 1024
	formMemory = 256
)

// String describes the form: "lower-case letters, digits, '-' and 36 characters".
func (f Form) String() string {
	var parts []string
	add := func(has bool, text string) {
		if has {
			parts = append(parts, text)
		}
	}
	add(f.Lower, "lower-case letters")
	add(f.Upper, "upper-case letters")
	add(f.Digits && f.Zeros, "digits with leading zeros")
	add(f.Digits && !f.Zeros, "digits")
	add(f.Other, "other characters")
	if f.Marks == manyMarks {
		parts = append(parts, "punctuation")
	} else {
		for _, r := range f.Marks {
			parts = append(parts, fmt.Sprintf("%q", r))
		}
	}
	add(f.Padded, "white space at an end")
	add(f.Width > 0, fmt.Sprintf("%d characters", f.Width))
	add(f.Width < 0, "another length")
	if len(parts) == 0 {
		return "no characters"
	}
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// FormCount counts the texts of a form.
type FormCount struct {
	Form  Form
	Count int64
}

// UsualWidth returns the number of characters that at least 99 % of the texts of the sample have, without empty texts; 0 if there is
// no such number.
func (p *Profile) UsualWidth() int {
	if len(p.texts) == 0 {
		return 0
	}
	usual := utf8.RuneCountInString(p.texts[len(p.texts)/2])
	others := 0
	for _, text := range p.texts {
		if text != "" && utf8.RuneCountInString(text) != usual {
			others++
		}
	}
	if others*unusual > len(p.texts) {
		return 0
	}
	return usual
}

// Forms counts the texts of the sample by their forms, the most frequent first, without empty texts. It returns nil if there are more
// than maxForms forms. With a usual width, leading zeros
// are no part of a form: numbers of one width begin with zeros until they have grown.
func (p *Profile) Forms(usualWidth int) []FormCount {
	counts := map[Form]int64{}
	for _, text := range p.texts {
		if text != "" {
			counts[formOf(text, usualWidth)]++
		}
		if len(counts) > maxForms {
			return nil
		}
	}
	out := make([]FormCount, 0, len(counts))
	for form, n := range counts {
		out = append(out, FormCount{form, n})
	}
	slices.SortFunc(out, func(a, b FormCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Form.String(), b.Form.String()))
	})
	return out
}

// formOf returns the form of a text that is not empty.
func formOf(text string, usualWidth int) (f Form) {
	if usualWidth > 0 {
		f.Width = -1
		if utf8.RuneCountInString(text) == usualWidth {
			f.Width = usualWidth
		}
	}
	trimmed := strings.TrimSpace(text)
	f.Padded = len(trimmed) < len(text)
	var marks []rune
	for _, r := range trimmed {
		switch {
		case r >= '0' && r <= '9':
			f.Digits = true
		case unicode.IsLower(r):
			f.Lower = true
		case unicode.IsUpper(r):
			f.Upper = true
		case r == utf8.RuneError || !unicode.IsPrint(r) || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			f.Other = true
		case len(marks) <= maxMarks && !slices.Contains(marks, r):
			marks = append(marks, r)
		}
	}
	slices.Sort(marks)
	f.Marks = string(marks)
	if len(marks) > maxMarks {
		f.Marks = manyMarks
	}
	f.Zeros = usualWidth == 0 && leadingZeros(trimmed)
	return f
}

// leadingZeros reports whether the only digits of a text are at its end, and begin with a zero that is not the last of them.
func leadingZeros(text string) bool {
	const digits = "0123456789"
	at := strings.IndexAny(text, digits)
	return at >= 0 && text[at] == '0' && at+1 < len(text) && strings.Trim(text[at:], digits) == ""
}
