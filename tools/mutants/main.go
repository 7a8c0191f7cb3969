// Command mutants applies known ways to be wrong to the product, one at a
// time, and runs the tests that must notice. A mutant that survives, or whose
// text is no longer found, fails the run. The tree itself is not touched: the
// mutated file is laid over it for the compiler alone.
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
	"slices"
	"strings"
)

func main() {
	survived := 0
	for _, m := range mutants() {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], m.name) {
			continue
		}
		err := try(m)
		verdict := "caught"
		if err != nil {
			verdict = err.Error()
			survived++
		}
		fmt.Printf("%-32s %s\n", m.name, verdict)
	}
	if survived > 0 {
		fmt.Printf("%d mutants were not caught\n", survived)
		os.Exit(1)
	}
}

// try applies one mutant and runs its tests; nil means that they failed, as
// they must.
func try(m mutant) error {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return fmt.Errorf("STALE: its text is found %d times in %s", n, m.file)
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		return err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return err
	}
	args := append([]string{"test", "-count=1", "-tags", "invariants", "-overlay", overlayFile}, m.tests...)
	out, err := exec.Command("go", args...).CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("SURVIVED go test %s", strings.Join(m.tests, " "))
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return fmt.Errorf("DOES NOT BUILD: %s", out)
	}
	return nil
}
