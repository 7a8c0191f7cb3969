// Command mutants breaks rules of the product, one at a time, and runs the test that must
// notice. It does not touch the tree: the mutated file is laid over it for the compiler
// alone. A mutant that survives is a missing test, or a test that was weakened.
//
// The file mutants.txt has the mutants, which the package comment of mutant.go describes.
// They are for the parts whose slips give wrong rows or rights: resolver, plan, joiner,
// lane, cursor, commit and policy.
//
//	go run ./tools/mutants [-part I/N] [name ...]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// mutantsFile holds all mutants.
const mutantsFile = "tools/mutants/mutants.txt"

func main() {
	part := flag.String("part", "0/1", "run the mutants whose number modulo N is I, as in 3/20; I may exceed N")
	flag.Parse()
	if err := run(*part, flag.Args()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// run tries the mutants of these names, or those of a part.
func run(part string, names []string) error {
	text, err := os.ReadFile(mutantsFile)
	if err != nil {
		return err
	}
	all, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", mutantsFile, err)
	}
	chosen, err := choose(all, part, names)
	if err != nil {
		return err
	}
	if err := testUnchanged(chosen); err != nil {
		return err
	}
	survived := 0
	for _, m := range chosen {
		if err := try(m); err != nil {
			fmt.Printf("%-48s %s\n", m.name, err)
			survived++
			continue
		}
		fmt.Printf("%-48s caught by %s in %s\n", m.name, m.test, m.folder)
	}
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants were not caught", survived, len(chosen))
	}
	return nil
}

// choose returns the mutants of these names, or without names those of a part.
func choose(all []mutant, part string, names []string) ([]mutant, error) {
	if len(names) > 0 {
		chosen := slices.DeleteFunc(all, func(m mutant) bool { return !slices.Contains(names, m.name) })
		if len(chosen) != len(names) {
			return nil, errors.New("there is no mutant of some of these names")
		}
		return chosen, nil
	}
	var i, of int
	if _, err := fmt.Sscanf(part, "%d/%d", &i, &of); err != nil || i < 0 || of < 1 {
		return nil, fmt.Errorf("-part %s: want I/N", part)
	}
	var chosen []mutant
	for n, m := range all {
		if n%of == i%of {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// testUnchanged runs the tests of these mutants on the tree as it is, where they must pass.
func testUnchanged(chosen []mutant) error {
	tests := map[string][]string{}
	for _, m := range chosen {
		tests[m.folder] = append(tests[m.folder], m.test)
	}
	for folder, names := range tests {
		if out, err := test("", folder, names...); err != nil {
			return fmt.Errorf("without any mutant the tests of %s fail:\n%s", folder, out)
		}
	}
	return nil
}

// test runs tests of a folder, with an overlay if one is given. Scenario files then
// compare no texts that are made for people, which change with anything.
func test(overlay, folder string, names ...string) ([]byte, error) {
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout=10m", "-tags=invariants", "-run=" + anyOf(names)}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	command := exec.Command("go", append(args, folder)...) //nolint:noctx // -timeout ends it
	command.Env = append(os.Environ(), "PENSTOCK_ROWS_ALONE=1")
	return command.CombinedOutput()
}

// try runs the test of one mutant, which must fail.
func try(m mutant) error {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := mutate(m, dir)
	if err != nil {
		return err
	}
	out, err := test(overlay, m.folder, m.test)
	switch {
	case err == nil:
		return fmt.Errorf("SURVIVED %s in %s", m.test, m.folder)
	case !failed(out):
		return fmt.Errorf("NO TEST FAILED: %s", out)
	default:
		return nil
	}
}

// failed says whether the output of go test is that of a test that ran and failed: a
// mutant that only keeps tests from being built is not caught.
func failed(out []byte) bool {
	for _, sign := range []string{"--- FAIL: ", "\npanic: ", "\nfatal error: ", "\ngoleak: "} {
		if bytes.Contains(append([]byte("\n"), out...), []byte(sign)) {
			return true
		}
	}
	return false
}

// mutate writes the mutated file into a folder, and beside it the overlay that puts it in
// the place of the original. It returns the overlay's path.
func mutate(m mutant, dir string) (string, error) {
	found, err := find(m, ".")
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, found.replaced(m.replacement), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(found.file)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, overlay, 0o600)
}
