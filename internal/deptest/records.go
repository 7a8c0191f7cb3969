package deptest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	recordName = regexp.MustCompile(`^(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	recordHead = regexp.MustCompile(`^# (\d{4})\. \S.*\n\nDate: \d{4}-\d{2}-\d{2}\nStatus: \S`)
)

// CheckRecords reads the decision records in dir (docs/adr) and returns one sentence per
// fault: a number that is missing or used twice, a name or first lines that are not in
// the form of the folder's README.md, a record that README.md does not list. It ignores
// TEMPLATE.md.
func CheckRecords(root fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil, fmt.Errorf("read the decision records: %w", err)
	}
	index, err := fs.ReadFile(root, path.Join(dir, "README.md"))
	if err != nil {
		return nil, fmt.Errorf("read the list of decision records: %w", err)
	}
	var faults []string
	last := 0
	for _, entry := range entries {
		name := entry.Name()
		if name == "README.md" || name == "TEMPLATE.md" {
			continue
		}
		parts := recordName.FindStringSubmatch(name)
		if parts == nil {
			faults = append(faults, fmt.Sprintf("%s: a record is named 0001-what-was-decided.md", name))
			continue
		}
		if want := fmt.Sprintf("%04d", last+1); parts[1] != want {
			faults = append(faults, fmt.Sprintf("%s: the next record is number %s", name, want))
		}
		if _, err := fmt.Sscanf(parts[1], "%d", &last); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text, err := fs.ReadFile(root, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if head := recordHead.FindSubmatch(text); head == nil || string(head[1]) != parts[1] {
			faults = append(faults, fmt.Sprintf("%s: its first lines are not those of TEMPLATE.md, with number %s", name, parts[1]))
		}
		if !strings.Contains(string(index), "("+name+")") {
			faults = append(faults, name+": README.md does not list it")
		}
	}
	return faults, nil
}
