package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// mutant is one way to be wrong. In mutants.txt, where blank lines separate them, it is
//
//	name
//	in loader/plan Plan.order
//	by ./loader TestScenarios
//	- best < 0 || l.Rows < best
//	+ best < 0
//
// In the declaration of that name in that package, the code after "-" becomes that after
// "+", and then that test must fail. Several lines of either are one piece of code. The
// code is compared by its tokens, so that neither its layout nor its file matters.
type mutant struct {
	name string

	// pkg is the folder of the package, and declaration the name in it: that of a function,
	// type, constant or variable, or Type.Method.
	pkg, declaration string

	code, replacement string

	// folder holds the test, as an argument of go test.
	folder, test string
}

// parse reads the mutants of a text. Names are unique.
func parse(text string) ([]mutant, error) {
	var all []mutant
	names := map[string]bool{}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		m, err := parseOne(strings.Split(block, "\n"))
		if err != nil {
			return nil, fmt.Errorf("mutant %q: %w", m.name, err)
		}
		if names[m.name] {
			return nil, fmt.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		all = append(all, m)
	}
	return all, nil
}

// parseOne reads one mutant.
func parseOne(lines []string) (m mutant, err error) {
	m.name = lines[0]
	for _, line := range lines[1:] {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "in":
			m.pkg, m.declaration, _ = strings.Cut(rest, " ")
		case "by":
			m.folder, m.test, _ = strings.Cut(rest, " ")
		case "-":
			m.code += rest + "\n"
		case "+":
			m.replacement += rest + "\n"
		default:
			return m, fmt.Errorf("line %q begins with none of in, by, - and +", line)
		}
	}
	m.code, m.replacement = strings.TrimSuffix(m.code, "\n"), strings.TrimSuffix(m.replacement, "\n")
	if m.declaration == "" || m.test == "" || m.code == "" || m.code == m.replacement {
		return m, errors.New("want lines in, by and -, and another code after +")
	}
	return m, nil
}

// anyOf returns the pattern of go test -run for tests of these names.
func anyOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}
