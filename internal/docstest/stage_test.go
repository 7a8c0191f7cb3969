package docstest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
)

// writeType returns the type of the argument of Python's client.stage for a field.
func writeType(f dataset.Field[dataset.TableWrite]) string {
	switch {
	case f.Name == "progress":
		return "ProgressFunction | None"
	case f.Number:
		return "int | None"
	case f.Name == "again": // None depends on the token
		return "bool | None"
	case f.Truth:
		return "bool"
	case f.Words != nil:
		return `Literal["` + strings.Join(f.Words, `", "`) + `"]`
	case f.SetTexts != nil:
		return "Sequence[str] | None"
	case f.Required:
		return "str"
	}
	return "str | None"
}

// stageFaults returns the differences between Python's client.stage and the fields of a command.
func stageFaults(source string) []string {
	_, text, _ := strings.Cut(source, "    def stage(\n")
	text, _, _ = strings.Cut(text, "\n    def ")
	head, body, _ := strings.Cut(text, "\n    ) -> ")
	arguments := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^        (\w+): (.*?)(?: = .*)?,$`).FindAllStringSubmatch(head, -1) {
		arguments[m[1]] = m[2]
	}
	var faults []string
	for _, f := range dataset.WriteFields() {
		if want := writeType(f); arguments[f.Name] != want {
			faults = append(faults, fmt.Sprintf("stage: %s is %q, not %q", f.Name, arguments[f.Name], want))
		}
		if !strings.Contains(body, "\n            "+f.Name+": ") {
			faults = append(faults, "stage: "+f.Name+" is not described")
		}
		if !strings.Contains(body, "\n            \""+f.Name+"\": ") {
			faults = append(faults, "stage: "+f.Name+" is not sent")
		}
		delete(arguments, f.Name)
	}
	delete(arguments, "data")
	delete(arguments, "sql") // another form of data
	for name := range arguments {
		faults = append(faults, "a command has no field "+name)
	}
	return faults
}

// TestPythonHasTheFieldsOfAStage: Python's client.stage has an argument for each field of a command, describes it, and sends it.
func TestPythonHasTheFieldsOfAStage(t *testing.T) {
	source := read(t, "python/src/penstock/publishing.py")
	require.Empty(t, stageFaults(source))
	for want, change := range map[string][2]string{
		`stage: like is "str", not "str | None"`: {"        like: str | None = None,\n", "        like: str,\n"},
		"stage: dry_run is not described":        {"            dry_run: read and sort", "            It reads and sorts"},
		"stage: evolve is not sent":              {"            \"evolve\": evolve or None,\n", ""},
		"a command has no field fresh":           {"        like: str | None = None,\n", "        like: str | None = None,\n        fresh: bool = False,\n"},
	} {
		changed := strings.Replace(source, change[0], change[1], 1)
		require.NotEqual(t, source, changed, want)
		require.Equal(t, []string{want}, stageFaults(changed))
	}
}

// TestOptionsOfStageAreDocumented: each flag of penstock stage that sets a field has a row, and each row has a flag.
func TestOptionsOfStageAreDocumented(t *testing.T) {
	want := []string{ // of the command alone
		"--columns", "--compute", "--filter", "--from-ref", "--from-snapshot", "--from-table", "--input-format", "--json", "--no-folder-columns", "--schema", "--sql",
	}
	for _, f := range dataset.WriteFields() {
		if f.Flag.Help != "" {
			want = append(want, "--"+strings.ReplaceAll(f.Name, "_", "-"))
		}
	}
	var got []string
	for _, r := range tables(read(t, "docs/changes.md"), "options of stage") {
		for _, name := range r.names() {
			name, _, _ = strings.Cut(name, " ")
			got = append(got, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}
