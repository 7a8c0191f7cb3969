package prosetest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// finding is a place that breaks a rule.
type finding struct {
	folder string
	text   string // the place, what it says, and what to write instead
}

// passage is a text of a file, or a declared name.
type passage struct {
	line int
	text string
	name bool
}

// skipped are trees that quote other texts, or are history.
var skipped = regexp.MustCompile(`(^|/)(testdata|\.[^/]+|_[^/]+|results)$|^(docs/adr|tools/mutants|internal/(prosetest|deptest))$`)

// check reads all Go and Python files and all pages below root and returns what breaks
// a rule, in order of files.
func check(root fs.FS) ([]finding, error) {
	inTexts, inNames := compile(phrases()), compile(words())
	var findings []finding
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && skipped.MatchString(name) {
				return fs.SkipDir
			}
			return nil
		}
		read := reader(name)
		if read == nil {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		passages, err := read(name, string(src))
		if err != nil {
			return err
		}
		ofTexts, ofNames := of(inTexts, src), of(inNames, src)
		for _, p := range passages {
			matchers := ofTexts
			if p.name {
				matchers = ofNames
			}
			if p.name && strings.HasPrefix(p.text, "test ") { // it is a sentence
				matchers = slices.Concat(ofNames, ofTexts)
			}
			for _, found := range p.findings(matchers) {
				findings = append(findings, finding{path.Dir(name), name + found})
			}
		}
		return nil
	})
	return findings, err
}

// of returns the rules that hold for a file.
func of(matchers []matcher, src []byte) []matcher {
	return slices.DeleteFunc(slices.Clone(matchers), func(m matcher) bool { return m.unless != nil && m.unless.Match(src) })
}

// reader returns what reads a file's passages; nil for files that are not checked.
func reader(name string) func(name, src string) ([]passage, error) {
	switch {
	case name == "CHANGELOG.md":
		return nil
	case strings.HasSuffix(name, ".go"):
		return goPassages
	case strings.HasSuffix(name, ".py"):
		return pythonPassages
	case strings.HasSuffix(name, ".md"):
		return pagePassages
	}
	return nil
}

// findings returns what a passage breaks, as ":line: …".
func (p passage) findings(matchers []matcher) []string {
	text := p.text
	if !p.name {
		text = spaced(unquoted(text))
	}
	var out []string
	for _, m := range matchers {
		for _, at := range m.find(text) {
			line := p.line + strings.Count(text[:at[0]], "\n")
			out = append(out, fmt.Sprintf(":%d: %q: write instead: %s", line, strings.Join(strings.Fields(text[at[0]:at[1]]), " "), m.instead))
		}
	}
	return out
}

// quoted is code and words that a text is about.
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|“[^”]*”")

// unquoted blanks what a text quotes, and keeps its lines.
func unquoted(text string) string { return quoted.ReplaceAllStringFunc(text, blanked) }

// blanked is as many blanks as a text has bytes; line breaks stay.
func blanked(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text)
}

// comment is the mark with which a line of a comment begins, or of an indented text.
var comment = regexp.MustCompile(`(?m)^[ \t]*(//|#+|\*)?[ \t]?`)

// spaced takes the marks of comments off, so that a phrase may be broken into lines.
func spaced(text string) string { return comment.ReplaceAllString(text, "") }
