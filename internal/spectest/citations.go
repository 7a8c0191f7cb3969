package spectest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// citation is one mention of a sentence in a test.
type citation struct {
	id string
	at string // file:line
}

var (
	// cited matches a list of ids, in a comment or a name.
	cited = regexp.MustCompile(`\bspec: ([a-z]+-[0-9]+(?:, ?[a-z]+-[0-9]+)*)`)
	// citing matches a comment that is intended as a citation.
	citing = regexp.MustCompile(`^\s*(?://|#)\s*[Ss]pec\s*:`)
)

// readCitations returns the citations of the tests below root, and the malformed ones.
// own is the folder of this package, whose tests contain citations as examples.
func readCitations(root fs.FS, own string) ([]citation, []string, error) {
	var all []citation
	var faults []string
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := file != "." && strings.HasPrefix(entry.Name(), ".")
			if hidden || file == own {
				return fs.SkipDir
			}
			return nil
		}
		if !cites(file) {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		found, wrong := citationsIn(file, string(text))
		all, faults = append(all, found...), append(faults, wrong...)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the tests: %w", err)
	}
	return all, faults, nil
}

// cites reports whether citations in a file count, since it is a test.
func cites(file string) bool {
	dir, base := path.Split("/" + file)
	kit := strings.HasSuffix(strings.TrimSuffix(dir, "/"), "test") || strings.HasPrefix(dir, "/internal/scenario/")
	switch path.Ext(base) {
	case ".go":
		return strings.HasSuffix(base, "_test.go") || kit
	case ".py":
		return strings.HasPrefix(base, "test_")
	case ".txt":
		return strings.Contains(dir, "/testdata/")
	default:
		return false
	}
}

// citationsIn returns the citations in the text of one test file.
func citationsIn(file, text string) ([]citation, []string) {
	var all []citation
	var faults []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		at := fmt.Sprintf("%s:%d", file, number)
		lists := cited.FindAllStringSubmatch(line, -1)
		if lists == nil && citing.MatchString(line) {
			faults = append(faults, at+": a citation reads \"spec: page-1, page-2\"")
		}
		for _, list := range lists {
			for id := range strings.SplitSeq(list[1], ",") {
				all = append(all, citation{id: strings.TrimSpace(id), at: at})
			}
		}
	}
	return all, faults
}
