// Command mutants applies known ways to be wrong to the product, one at a
// time, and runs the tests that must notice: tests of rows or of a refusal, as
// texts made for people change with anything. First it runs these tests on the
// tree as it is, where they must pass. A mutant that survives, or whose text is
// no longer found, fails the run. The tree itself is not touched: the mutated
// file is laid over it for the compiler alone.
//
// The file caught.txt names the test that caught each mutant before. That test
// runs first; if it passes, all tests that the mutant names run. With -rewrite,
// the file is written anew after each mutant.
//
//	go run ./tools/mutants [-rewrite] [-skip-unmutated] [name ...]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	rewrite := flag.Bool("rewrite", false, "record in caught.txt which test caught each mutant")
	skip := flag.Bool("skip-unmutated", false, "do not run the tests without a mutant first")
	flag.Parse()
	if err := run(flag.Args(), *rewrite, *skip); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// run tries the mutants of these names, or all of them.
func run(names []string, rewrite, skip bool) error {
	chosen := mutants()
	if len(names) > 0 {
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !slices.Contains(names, m.name) })
		if len(chosen) != len(names) {
			return errors.New("there is no mutant of some of these names")
		}
	}
	known, err := readCaught(caughtFile)
	if err != nil {
		return err
	}
	if !skip {
		if out, err := test("", packages(chosen)); err != nil {
			return fmt.Errorf("without any mutant the tests fail:\n%s", out)
		}
	}
	survived := 0
	for _, m := range chosen {
		by, err := try(m, known[m.name])
		if err != nil {
			fmt.Printf("%-44s %s\n", m.name, err)
			survived++
			continue
		}
		fmt.Printf("%-44s caught by %s\n", m.name, by)
		known[m.name] = by
		if rewrite {
			if err := writeCaught(caughtFile, known); err != nil {
				return err
			}
		}
	}
	if survived > 0 {
		return fmt.Errorf("%d mutants were not caught", survived)
	}
	return nil
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
		"TestAllFaultsAreReportedTogether", "TestFaults", "TestFaultyConfig", // messages
	}
}

// slow are the tests that take most of the time of their packages. A package's other
// tests run before them.
func slow() []string {
	return []string{
		"TestOracle", "TestBuildSidesDoNotRetainTheirStreams", "TestColumnsThatDifferWithinARequest", "TestStepsOfShardsAndWorkers",
		"TestRowsOfARequestThatDiffer", "TestShufflesAreUniform", "TestCountsEqualTheRowsOfStreams", "TestParkedStreamsGiveTheSame",
		"TestParkedStreamsOnDisk", "TestParkedWorkersTakeTheirSteps", "TestStagingBytesAreReadOnce", "TestSameRowsSameOrder",
	}
}

// skipping is the flag that leaves tests out.
func skipping(tests []string) []string {
	return []string{"-skip", "^(" + strings.Join(tests, "|") + ")$"}
}

// rowsAlone is the environment in which scenario files compare no such texts.
const rowsAlone = "PENSTOCK_ROWS_ALONE=1"

// test runs tests, with an overlay if one is given.
func test(overlay string, tests []string) ([]byte, error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-failfast", "-tags", "invariants"}, skipping(texts())...)
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	command := exec.Command("go", append(args, tests...)...) //nolint:noctx // it ends with its tests
	command.Env = append(os.Environ(), rowsAlone)
	return command.CombinedOutput()
}

// try applies one mutant and runs its tests, those that caught it before first, and
// returns the one that failed, as one must.
func try(m mutant, before catch) (by catch, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return by, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := mutate(m, dir)
	if err != nil {
		return by, err
	}
	for _, tests := range m.runs(before) {
		out, err := test(overlay, tests)
		switch {
		case err == nil:
			continue
		case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
			return by, fmt.Errorf("DOES NOT BUILD: %s", out)
		}
		name, err := failed(out)
		return catch{folder: tests[len(tests)-1], test: name}, err
	}
	return by, fmt.Errorf("SURVIVED go test %s", strings.Join(m.tests, " "))
}

// runs returns the arguments of go test, run after run: the test that caught the mutant
// before, the tests of each package that are not slow, and then all of them, the package
// with the mutated file first.
func (m mutant) runs(before catch) [][]string {
	var flags, folders []string
	for _, arg := range m.tests {
		if strings.HasPrefix(arg, "./") {
			folders = append(folders, arg)
		} else {
			flags = append(flags, arg)
		}
	}
	own := "./" + path.Dir(m.file)
	slices.SortStableFunc(folders, func(a, b string) int {
		switch own {
		case a:
			return -1
		case b:
			return 1
		default:
			return 0
		}
	})
	var runs [][]string
	if before.test != "" && before.test != crash {
		runs = append(runs, append(slices.Clone(flags), "-run", "^"+before.test+"$", before.folder)) // the last -run counts
	}
	quick := skipping(slices.Concat(texts(), slow())) // the last -skip counts, too
	for _, folder := range folders {
		runs = append(runs, slices.Concat(flags, quick, []string{folder}))
	}
	for _, folder := range folders {
		runs = append(runs, append(slices.Clone(flags), folder))
	}
	return runs
}

// mutate writes the mutated file into a folder, and beside it the overlay that puts it
// into the place of the original.
func mutate(m mutant, dir string) (overlayFile string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return "", fmt.Errorf("STALE: its text is found %d times in %s", n, m.file)
	}
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
	overlayFile = filepath.Join(dir, "overlay.json")
	return overlayFile, os.WriteFile(overlayFile, overlay, 0o600)
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
		return crash, nil
	}
	return "", fmt.Errorf("NO TEST FAILED: %s", out)
}
