package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// caughtFile has a line for each mutant that was caught: its name, the folder of the tests,
// and the test.
const caughtFile = "tools/mutants/caught.txt"

// crash stands in the place of a test where the whole test program ended.
const crash = "(crash)"

// catch is what caught a mutant.
type catch struct{ folder, test string }

func (c catch) String() string { return c.test + " in " + c.folder }

// readCaught reads which test caught each mutant, by the mutant's name.
func readCaught(file string) (map[string]catch, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known := map[string]catch{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("%s: %q is not a mutant, a folder and a test", file, line)
		}
		known[words[0]] = catch{folder: words[1], test: words[2]}
	}
	return known, nil
}

// writeCaught writes which test caught each mutant, of the mutants that there are.
func writeCaught(file string, known map[string]catch) error {
	there := map[string]bool{}
	for _, m := range mutants() {
		there[m.name] = true
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if there[name] {
			fmt.Fprintln(&text, name, known[name].folder, cmp.Or(known[name].test, crash))
		}
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}
