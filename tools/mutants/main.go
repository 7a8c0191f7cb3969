// Command mutants applies known ways to be wrong to the product, one at a
// time, and runs the tests that must notice: tests of rows or of a refusal, as
// texts made for people change with anything. First it runs these tests on the
// tree as it is, where they must pass. A mutant that survives, or whose text is
// no longer found, fails the run. The tree itself is not touched: the mutated
// file is laid over it for the compiler alone.
//
//	go run ./tools/mutants [name ...]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	chosen := mutants()
	if names := os.Args[1:]; len(names) > 0 {
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !slices.Contains(names, m.name) })
		if len(chosen) != len(names) {
			fmt.Println("there is no mutant of some of these names")
			os.Exit(1)
		}
	}
	if out, err := test("", packages(chosen)); err != nil {
		fmt.Printf("without any mutant the tests fail:\n%s", out)
		os.Exit(1)
	}
	survived := 0
	for _, m := range chosen {
		by, err := try(m)
		verdict := "caught by " + by
		if err != nil {
			verdict = err.Error()
			survived++
		}
		fmt.Printf("%-44s %s\n", m.name, verdict)
	}
	if survived > 0 {
		fmt.Printf("%d mutants were not caught\n", survived)
		os.Exit(1)
	}
}

// packages returns all packages whose tests mutants name.
func packages(chosen []mutant) []string {
	var all []string
	for _, m := range chosen {
		all = append(all, m.tests...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(arg string) bool { return !strings.HasPrefix(arg, "./") })
}

// texts are the tests that compare explain texts, reports and messages with
// golden files: what they alone notice is not caught. Scenario files leave such
// texts out by themselves (internal/scenario).
func texts() []string {
	return []string{
		"TestExplainOfMixedSpecs", "TestExplainOfRules", "TestExplainAndDatasets", "TestExplainSaysWhatStepsCost", // explain
		"TestReport", "TestClean", // verify
		"TestEveryFaultIsToldAtOnce", "TestFaults", "TestFaultyConfig", // messages
	}
}

// rowsAlone is the environment in which scenario files compare no such texts.
const rowsAlone = "PENSTOCK_ROWS_ALONE=1"

// test runs tests, with an overlay if one is given.
func test(overlay string, tests []string) ([]byte, error) {
	args := []string{"test", "-count=1", "-tags", "invariants", "-skip", "^(" + strings.Join(texts(), "|") + ")$"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	command := exec.Command("go", append(args, tests...)...) //nolint:noctx // it ends with its tests
	command.Env = append(os.Environ(), rowsAlone)
	return command.CombinedOutput()
}

// try applies one mutant and runs its tests, and returns the one that failed, as
// one must.
func try(m mutant) (by string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return "", fmt.Errorf("STALE: its text is found %d times in %s", n, m.file)
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", err
	}
	out, err := test(overlayFile, m.tests)
	switch {
	case err == nil:
		return "", fmt.Errorf("SURVIVED go test %s", strings.Join(m.tests, " "))
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("DOES NOT BUILD: %s", out)
	}
	return failed(out)
}

var (
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	running = regexp.MustCompile(`(?m)^(?:panic|fatal error|goleak): (.*)`)
)

// failed finds out which test failed first. A mutant that only keeps tests from
// being run is not caught.
func failed(out []byte) (string, error) {
	if found := failure.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	if found := running.FindSubmatch(out); found != nil {
		return "a crash: " + string(found[1]), nil
	}
	return "", fmt.Errorf("NO TEST FAILED: %s", out)
}
