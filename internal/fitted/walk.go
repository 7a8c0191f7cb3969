package fitted

import "bytes"

// The functions of this file walk through JSON that is known to be valid, without copies: values of
// encoding/json would take several times the memory of a large vocabulary.

// valueEnd returns the position after the value that begins at text[from].
func valueEnd(text []byte, from int) int {
	depth := 0
	for at := from; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		default:
			if depth > 0 || at+1 < len(text) && bytes.IndexByte([]byte(",]} \t\r\n"), text[at+1]) < 0 {
				continue
			}
		}
		if depth == 0 {
			return at + 1
		}
	}
	return len(text)
}

// skip returns the position of the first byte at or after text[from] that is neither white space nor a
// separator.
func skip(text []byte, from int) int {
	for bytes.IndexByte([]byte(" \t\r\n,:"), text[from]) >= 0 {
		from++
	}
	return from
}

// eachItem calls each for the items of a list. It reports whether the value is a list.
func eachItem(text []byte, each func(item []byte) error) (bool, error) {
	if text[0] != '[' {
		return false, nil
	}
	for at := skip(text, 1); text[at] != ']'; {
		end := valueEnd(text, at)
		if err := each(text[at:end]); err != nil {
			return true, err
		}
		at = skip(text, end)
	}
	return true, nil
}

// eachMember calls each for the members of an object. It reports whether the value is an object.
func eachMember(text []byte, each func(name string, value []byte) error) (bool, error) {
	if text[0] != '{' {
		return false, nil
	}
	for at := skip(text, 1); text[at] != '}'; {
		nameEnd := valueEnd(text, at)
		from := skip(text, nameEnd)
		end := valueEnd(text, from)
		if err := each(string(text[at+1:nameEnd-1]), text[from:end]); err != nil {
			return true, err
		}
		at = skip(text, end)
	}
	return true, nil
}
