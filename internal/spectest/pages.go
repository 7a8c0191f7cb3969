package spectest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// sentence is one numbered promise.
type sentence struct {
	id string // the page and the sentence's number, such as pin-2
	at string // file:line
}

var (
	// sentenceForm is a list item with an id and some text.
	sentenceForm = regexp.MustCompile(`^- \*\*([a-z]+)-([1-9][0-9]*)\*\* +\S`)
	// almostForm matches a line that was probably meant to be a sentence.
	almostForm = regexp.MustCompile(`^\s*[-*]?\s*\*\*[A-Za-z]+[- .]?[0-9][0-9.]*\*\*`)
	// listed is a page in the table of README.md.
	listed = regexp.MustCompile(`\]\(([a-z]+)\.md\)`)
)

// readPages returns the sentences of all pages in dir, in order, and the
// faults in the pages' form.
func readPages(root fs.FS, dir string) ([]sentence, []string, error) {
	pages, err := fs.Glob(root, path.Join(dir, "*.md"))
	if err != nil {
		return nil, nil, err
	}
	index, err := fs.ReadFile(root, path.Join(dir, "README.md"))
	if err != nil {
		return nil, nil, fmt.Errorf("read the list of pages: %w", err)
	}
	missing := map[string]bool{}
	for _, match := range listed.FindAllSubmatch(index, -1) {
		missing[string(match[1])] = true
	}
	var all []sentence
	var faults []string
	for _, file := range pages {
		name := strings.TrimSuffix(path.Base(file), ".md")
		if name == "README" {
			continue
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return nil, nil, fmt.Errorf("read a page: %w", err)
		}
		if !missing[name] {
			faults = append(faults, file+": README.md does not list the page")
		}
		delete(missing, name)
		sentences, wrong := readPage(file, name, string(text))
		all, faults = append(all, sentences...), append(faults, wrong...)
	}
	for name := range missing {
		faults = append(faults, fmt.Sprintf("%s/README.md lists %s.md, which does not exist", dir, name))
	}
	return all, faults, nil
}

// readPage returns the sentences of one page.
func readPage(file, page, text string) ([]sentence, []string) {
	var all []sentence
	var faults []string
	last, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		at := fmt.Sprintf("%s:%d", file, number)
		parts := sentenceForm.FindStringSubmatch(line)
		if parts == nil {
			if almostForm.MatchString(line) {
				faults = append(faults, fmt.Sprintf("%s: a sentence must begin with \"- **%s-%d** \", followed by its text", at, page, last+1))
			}
			continue
		}
		n, err := strconv.Atoi(parts[2])
		switch {
		case err != nil || n <= last:
			faults = append(faults, fmt.Sprintf("%s: the numbers of sentences must increase; the previous number is %d", at, last))
		case parts[1] != page:
			faults = append(faults, fmt.Sprintf("%s: ids on this page begin with %s-", at, page))
		}
		last = n
		all = append(all, sentence{id: parts[1] + "-" + parts[2], at: at})
	}
	if len(all) == 0 {
		faults = append(faults, file+": the page has no sentence")
	}
	return all, faults
}
