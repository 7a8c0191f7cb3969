package function

import (
	"bytes"
	"math"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const acceptsText = "a string"

func textFunctions() []definition {
	text := func(name, arguments, accepts, meaning string, least, most int, bind func([]Argument) (Bound, error)) definition {
		return definition{Signature{Name: name, Arguments: arguments, Accepts: accepts, Result: "string", Meaning: meaning}, least, most, bind}
	}
	test := func(name, spark, meaning string, of func(x, y []byte) bool) definition {
		return definition{Signature{Name: name, Arguments: "x, y", Accepts: "two strings", Result: "boolean", Meaning: meaning, Spark: spark}, 2, 2, ofTexts(of)}
	}
	return []definition{
		{
			Signature: Signature{
				Name: "length", Arguments: "x", Accepts: "a string or a list", Result: "long",
				Meaning: "the number of characters (code points) of a string, or of items of a list", Spark: "length(x), array_size(x)",
			},
			least: 1, most: 1, bind: bindLength,
		},
		text("lower", "x", acceptsText, "x in lower case; it fails for letters whose lower case differs between engines", 1, 1, bindCase("lower", unicode.ToLower, lowerDiffers())),
		text("upper", "x", acceptsText, "x in upper case; it fails for letters whose upper case differs between engines", 1, 1, bindCase("upper", unicode.ToUpper, upperDiffers())),
		text("trim", "x", acceptsText, "x without spaces at both ends; it fails if another space separator of Unicode is then at an end", 1, 1, bindTrim("trim", true, true)),
		text("ltrim", "x", acceptsText, "x without spaces at the start, with the same failure", 1, 1, bindTrim("ltrim", true, false)),
		text("rtrim", "x", acceptsText, "x without spaces at the end, with the same failure", 1, 1, bindTrim("rtrim", false, true)),
		text("substring", "x, start, n", "a string, and one or two whole numbers",
			"n characters of x, or all, from start on: 1 is the first character, -1 the last; it fails for the start 0 and a negative n", 2, 3, bindSubstring),
		text("left", "x, n", "a string and a whole number", "the first n characters; it fails for a negative n", 2, 2, bindEnd("left", false)),
		text("right", "x, n", "a string and a whole number", "the last n characters; it fails for a negative n", 2, 2, bindEnd("right", true)),
		text("replace", "x, from, to", "a string and two literal strings", "x with each occurrence of from replaced with to; x if from is empty", 3, 3, bindReplace),
		text("split_part", "x, separator, i", "two strings and a whole number",
			"part i of x between separators: 1 is the first part, -1 the last, and a part that does not exist is empty; it fails for the part 0 and an empty separator", 3, 3, bindSplitPart),
		text("concat_ws", "separator, x, …", "strings", "all x that are not null, joined by the separator; null only if the separator is", 2, -1, bindConcat),
		test("starts_with", "startswith(x, y)", "whether x starts with y", bytes.HasPrefix),
		test("ends_with", "endswith(x, y)", "whether x ends with y", bytes.HasSuffix),
		test("contains", "", "whether y is part of x", bytes.Contains),
	}
}

func notUTF8() *refusal {
	return &refusal{"is not defined: the text is not valid UTF-8", "read the column as binary"}
}

func bindLength(args []Argument) (Bound, error) {
	invalid := notUTF8()
	switch {
	case isText(args[0].Type):
		return ofText("length", int64Type(), func(x []byte) (int64, *refusal) {
			if !utf8.Valid(x) {
				return 0, invalid
			}
			return int64(utf8.RuneCount(x)), nil
		}), nil
	case isList(args[0].Type):
		b := ofList("length", int64Type(), func(arrow.Array) func(from, to int) (int64, bool, *refusal) {
			return func(from, to int) (int64, bool, *refusal) { return int64(to - from), true, nil }
		})
		b.Nullable = false
		return b, nil
	default:
		return Bound{}, errTypes{}
	}
}

// bindCase binds functions that map each character to another one.
func bindCase(name string, of func(rune) rune, differs *unicode.RangeTable) func([]Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		if !isText(args[0].Type) {
			return Bound{}, errTypes{}
		}
		invalid := notUTF8()
		return rewriting(name, args, 3, func(args []arrow.Array, rows int) appender { // ȿ has 2 bytes, and Ȿ has 3
			in := textsOf(args[0], rows)
			return func(out []byte, row int) ([]byte, *refusal) {
				for x := in.at(row); len(x) > 0; {
					r, size := utf8.DecodeRune(x)
					switch {
					case r == utf8.RuneError && size == 1:
						return nil, invalid
					case r >= utf8.RuneSelf && unicode.Is(differs, r):
						return nil, &refusal{"is not defined: engines differ for the letter " + string(r), "replace the letter before, as in " + name + "(replace(x, 'ß', 'ss'))"}
					}
					out, x = utf8.AppendRune(out, of(r)), x[size:]
				}
				return out, nil
			}
		}), nil
	}
}

// bindTrim binds functions that remove U+0020. Spark removes nothing else, and DuckDB all space separators of Unicode.
func bindTrim(name string, start, end bool) func([]Argument) (Bound, error) {
	other := &refusal{"is not defined: engines differ for other spaces than U+0020", "replace them before, as in replace(x, '\u00a0', ' ')"}
	return func(args []Argument) (Bound, error) {
		if !isText(args[0].Type) {
			return Bound{}, errTypes{}
		}
		return rewriting(name, args, 2, func(args []arrow.Array, rows int) appender {
			in := textsOf(args[0], rows)
			return func(out []byte, row int) ([]byte, *refusal) {
				x := in.at(row)
				if start {
					x = bytes.TrimLeft(x, " ")
					if r, _ := utf8.DecodeRune(x); unicode.Is(unicode.Zs, r) {
						return nil, other
					}
				}
				if end {
					x = bytes.TrimRight(x, " ")
					if r, _ := utf8.DecodeLastRune(x); unicode.Is(unicode.Zs, r) {
						return nil, other
					}
				}
				return append(out, x...), nil
			}
		}), nil
	}
}

// wholes returns the values of an argument of whole numbers as long.
func wholes(a arrow.Array, rows int) func(row int) int64 {
	if a.DataType().ID() == arrow.INT32 {
		in := vectorOf[int32](a, rows)
		return func(row int) int64 { return int64(in.at(row)) }
	}
	return vectorOf[int64](a, rows).at
}

// skip returns the text from character n on.
func skip(x []byte, n int64) []byte {
	for ; n > 0 && len(x) > 0; n-- {
		_, size := utf8.DecodeRune(x)
		x = x[size:]
	}
	return x
}

// skipLast returns the text without the last n characters.
func skipLast(x []byte, n int64) []byte {
	for ; n > 0 && len(x) > 0; n-- {
		_, size := utf8.DecodeLastRune(x)
		x = x[:len(x)-size]
	}
	return x
}

// first returns the first n characters, and last the last n.
func first(x []byte, n int64) []byte { return x[:len(x)-len(skip(x, n))] }
func last(x []byte, n int64) []byte  { return x[len(skipLast(x, n)):] }

func bindSubstring(args []Argument) (Bound, error) {
	if !isText(args[0].Type) || !isInteger(args[1].Type) || len(args) == 3 && !isInteger(args[2].Type) {
		return Bound{}, errTypes{}
	}
	zero := &refusal{"is not defined: positions begin at 1", "use 1 for the first character"}
	invalid := notUTF8()
	return rewriting("substring", args, 2, func(args []arrow.Array, rows int) appender {
		in, start := textsOf(args[0], rows), wholes(args[1], rows)
		length := func(int) int64 { return math.MaxInt32 }
		if len(args) == 3 {
			length = wholes(args[2], rows)
		}
		return func(out []byte, row int) ([]byte, *refusal) {
			x, from, n := in.at(row), start(row), length(row)
			switch {
			case from == 0:
				return nil, zero
			case n < 0:
				return nil, negativeLength()
			case !utf8.Valid(x):
				return nil, invalid
			case from > 0:
				x = skip(x, from-1)
			case from < 0:
				if count := int64(utf8.RuneCount(x)); from < -count { // begins before the first character
					n = max(0, n+max(from, -math.MaxInt32-count)+count)
				} else {
					x = last(x, -from)
				}
			}
			return append(out, first(x, n)...), nil
		}
	}), nil
}

func negativeLength() *refusal {
	return &refusal{"is not defined for a negative number of characters", "use greatest(n, 0)"}
}

func bindEnd(name string, right bool) func([]Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		if !isText(args[0].Type) || !isInteger(args[1].Type) {
			return Bound{}, errTypes{}
		}
		negative, invalid := negativeLength(), notUTF8()
		return rewriting(name, args, 2, func(args []arrow.Array, rows int) appender {
			in, length := textsOf(args[0], rows), wholes(args[1], rows)
			return func(out []byte, row int) ([]byte, *refusal) {
				x, n := in.at(row), length(row)
				switch {
				case n < 0:
					return nil, negative
				case !utf8.Valid(x):
					return nil, invalid
				case right:
					return append(out, last(x, n)...), nil
				default:
					return append(out, first(x, n)...), nil
				}
			}
		}), nil
	}
}

func bindReplace(args []Argument) (Bound, error) {
	from, ok := textLiteralOf(args[1])
	to, also := textLiteralOf(args[2])
	if !isText(args[0].Type) || !ok || !also {
		return Bound{}, errTypes{}
	}
	old, with := []byte(from), []byte(to)
	// Each occurrence has len(old) bytes, and becomes len(with) bytes.
	growth := int64(max(1, (len(with)+max(1, len(old))-1)/max(1, len(old))))
	return ofFirst(Bound{
		Type: arrow.BinaryTypes.String,
		Size: func(sizes []int64, rows int) int64 { return textSize(rows, bytesOf(args[0], sizes[0], rows)*growth) },
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			v, in, most := o.common(of), textsOf(of[0], rows), 0
			for i := range rows {
				most += len(in.at(i))
				if len(old) > 0 && len(with) > len(old) {
					most += bytes.Count(in.at(i), old) * (len(with) - len(old))
				}
			}
			return o.textRows("replace", of, v, most, func(out []byte, row int) ([]byte, *refusal) {
				x := in.at(row)
				for len(old) > 0 {
					at := bytes.Index(x, old)
					if at < 0 {
						break
					}
					out, x = append(append(out, x[:at]...), with...), x[at+len(old):]
				}
				return append(out, x...), nil
			})
		},
	}), nil
}

func bindSplitPart(args []Argument) (Bound, error) {
	if !isText(args[0].Type) || !isText(args[1].Type) || !isInteger(args[2].Type) {
		return Bound{}, errTypes{}
	}
	zero := &refusal{"is not defined: parts begin at 1", "use 1 for the first part"}
	empty := &refusal{"is not defined for an empty separator", "use substring for single characters"}
	return rewriting("split_part", args, 2, func(args []arrow.Array, rows int) appender {
		in, separators, index := textsOf(args[0], rows), textsOf(args[1], rows), wholes(args[2], rows)
		return func(out []byte, row int) ([]byte, *refusal) {
			x, separator, i := in.at(row), separators.at(row), index(row)
			switch {
			case i == 0:
				return nil, zero
			case len(separator) == 0:
				return nil, empty
			case i < 0:
				if i += int64(bytes.Count(x, separator)) + 2; i < 1 {
					return out, nil
				}
			}
			for ; i > 1; i-- {
				at := bytes.Index(x, separator)
				if at < 0 {
					return out, nil
				}
				x = x[at+len(separator):]
			}
			if at := bytes.Index(x, separator); at >= 0 {
				x = x[:at]
			}
			return append(out, x...), nil
		}
	}), nil
}

func bindConcat(args []Argument) (Bound, error) {
	for _, a := range args {
		if !isText(a.Type) {
			return Bound{}, errTypes{}
		}
	}
	return Bound{
		Type: arrow.BinaryTypes.String,
		Size: func(sizes []int64, rows int) int64 {
			most := bytesOf(args[0], sizes[0], rows) * int64(len(args)-1)
			for i := range args[1:] {
				most += bytesOf(args[i+1], sizes[i+1], rows)
			}
			return textSize(rows, most)
		},
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			separator := textsOf(of[0], rows)
			all, most := make([]texts, len(of)-1), separator.total(rows)*max(0, len(of)-2)
			for i, a := range of[1:] {
				all[i] = textsOf(a, rows)
				most += all[i].total(rows)
			}
			absent := allNullsOf(of[1:], rows)
			return o.textRows("concat_ws", of, o.common(of[:1]), most, func(out []byte, row int) ([]byte, *refusal) {
				some := false
				for i, a := range absent {
					if a.at(row) {
						continue
					}
					if some {
						out = append(out, separator.at(row)...)
					}
					out, some = append(out, all[i].at(row)...), true
				}
				return out, nil
			})
		},
	}, nil
}
