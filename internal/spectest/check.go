package spectest

import (
	"fmt"
	"io/fs"
	"slices"
)

// Check reads the pages in docs/spec and all tests below root, and returns one line
// per fault, sorted: a sentence that no test cites, a citation of an unknown sentence,
// a malformed page or citation. own is the folder of this package.
func Check(root fs.FS, own string) ([]string, error) {
	sentences, faults, err := readPages(root, "docs/spec")
	if err != nil {
		return nil, err
	}
	citations, wrong, err := readCitations(root, own)
	if err != nil {
		return nil, err
	}
	faults = append(faults, wrong...)
	known, kept := map[string]bool{}, map[string]bool{}
	for _, s := range sentences {
		known[s.id] = true
	}
	for _, c := range citations {
		kept[c.id] = true
		if !known[c.id] {
			faults = append(faults, fmt.Sprintf("%s: no page of docs/spec has %s", c.at, c.id))
		}
	}
	for _, s := range sentences {
		if !kept[s.id] {
			faults = append(faults, fmt.Sprintf("%s: no test cites %s", s.at, s.id))
		}
	}
	slices.Sort(faults)
	return faults, nil
}
