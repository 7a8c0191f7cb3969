package docstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
)

// anchors returns the anchors of a page's headings.
func anchors(page string) map[string]bool {
	out := map[string]bool{"": true}
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		out[strings.ReplaceAll(text, " ", "-")] = true
	}
	return out
}

// broken returns the broken links of a page.
func broken(t *testing.T, path, page string) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		to, anchor, _ := strings.Cut(m[1], "#")
		target := path
		if to != "" {
			target = filepath.Join(filepath.Dir(path), to)
		}
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			out = append(out, m[1])
			continue
		}
		if strings.HasSuffix(target, ".md") && !anchors(read(t, target))[anchor] {
			out = append(out, m[1])
		}
	}
	return out
}

// TestLinks: every link to another page, and to its headings, has a target.
func TestLinks(t *testing.T) {
	for path, page := range pages(t) {
		require.Empty(t, broken(t, path, page), path)
	}
	require.Equal(t, []string{"none.md", "config.md#no-heading"}, broken(t, "docs/a.md", "[a](none.md) [b](config.md#no-heading) [c](config.md#server)"))
}

// sourceFile matches the path of a source file or page in backticks.
var sourceFile = regexp.MustCompile("`([a-z_]+/[A-Za-z0-9_/.-]+\\.(?:go|py|md|patch))`")

// absent returns the files that a page names and that exist neither in the repository's
// folder nor in the page's.
func absent(path, page string) []string {
	var out []string
	for _, m := range sourceFile.FindAllStringSubmatch(page, -1) {
		_, fromRoot := os.Stat(filepath.Join(root, m[1]))
		_, fromPage := os.Stat(filepath.Join(root, filepath.Dir(path), m[1]))
		if fromRoot != nil && fromPage != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// TestFilesExist: every file of the repository that a page names exists.
func TestFilesExist(t *testing.T) {
	for path, page := range pages(t) {
		require.Empty(t, absent(path, page), path)
	}
	require.Equal(t, []string{"loader/none.go"}, absent("docs/a.md", "`loader/none.go` `loader/loader.go` `spec/wire.md` `none.go`"))
}

// TestIndex: the index has a line for each page, and each page can be reached from it.
func TestIndex(t *testing.T) {
	index, recipes := read(t, "docs/README.md"), read(t, "docs/recipes/README.md")
	require.Contains(t, index, "](recipes/README.md)")
	for path := range pages(t) {
		if filepath.Dir(path) == "docs/recipes" && path != "docs/recipes/README.md" {
			require.Contains(t, recipes, "]("+filepath.Base(path)+"#", "the list of recipes has none of %s", path)
		}
		if filepath.Dir(path) == "docs" && path != "docs/README.md" {
			require.Contains(t, index, "]("+filepath.Base(path)+")", "the index has no line for %s", path)
		}
	}
	for _, from := range []string{"README.md", "CONTRIBUTING.md"} {
		require.Contains(t, read(t, from), "docs/README.md", from)
	}
}

// judge returns the error of a block of a page; nil if it is valid or of another form.
func judge(t *testing.T, b block) error {
	t.Helper()
	switch b.language {
	case "yaml":
		var names []string
		for _, s := range config.Settings() {
			names = append(names, s.Name)
		}
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(b.text), &document); err != nil {
			return err
		}
		_, faults := decode.File(document.Content[0], names)
		if _, err := decode.Policy(&document, policy.Names{Default: "default"}); err == nil {
			return nil
		}
		return fault.Fields(faults)
	case "json":
		var found map[string]json.RawMessage
		if err := json.Unmarshal([]byte(b.text), &found); err != nil {
			return err
		}
		query := b.text
		switch {
		case found["v"] != nil && found["at"] == nil: // a trainer's state, which the server does not decode
			return nil
		case found["at"] != nil:
			query = `{"dataset": "d", "cursor": ` + b.text + `}`
		case found["training"] != nil:
			query = `{"dataset": "d", "snapshots": ` + b.text + `}`
		}
		_, err := decode.Query([]byte(query))
		return err
	}
	return nil
}

// TestBlocksAreValid: every config file, query, pin and cursor on a page can be decoded.
func TestBlocksAreValid(t *testing.T) {
	seen := map[string]int{}
	for path, page := range pages(t) {
		for _, b := range blocks(page) {
			require.NoError(t, judge(t, b), "%s:\n%s", path, b.text)
			seen[b.language]++
		}
	}
	require.Greater(t, seen["yaml"], 10)
	require.Greater(t, seen["json"], 3)
	require.Error(t, judge(t, block{"yaml", "datasets: {a: {trainings: {}}}"}))
	require.Error(t, judge(t, block{"json", `{"dataset": "d", "seeds": 1}`}))
}
