package catalog

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// originalMark separates the two parts of the name of a replacement: see ReplacementName.
const originalMark = "-of-"

// replacementName matches the name of a replacement. Its groups are the prefix and the name of the
// original.
var replacementName = regexp.MustCompile(`^(penstock-[0-9a-f]{16}(?:-[0-9a-f]+)*)` + originalMark + `(.+)$`)

// ReplacementName returns the name of a file that replaces another one and has the same rows in the
// same order. It ends with the name of the original, so that OrderedAs of the new file is the
// location of the original if both are in the same folder. Both then have the same place in
// listings. The prefix is commit.FilePrefix and further hexadecimal numbers after dashes.
func ReplacementName(prefix string, replaced File) string {
	return prefix + originalMark + path.Base(replaced.OrderedAs())
}

// OrderedAs returns the location by which files are ordered and by which the file's rows are
// identified: the location of the original if the file is a replacement, and the file's own
// location otherwise.
func (f File) OrderedAs() string { return cmp.Or(f.Original, f.Location) }

// Arrange sets File.Original of the files of a snapshot, and sorts the files in the order of
// Catalog.Files. If several files would have the same OrderedAs, they get no Original and are
// ordered by their own locations, because OrderedAs must identify one file of a snapshot.
func Arrange(files []File) {
	replaced := false
	for i := range files {
		files[i].Original = originalOf(files[i].Location)
		replaced = replaced || files[i].Original != ""
	}
	if replaced {
		count := make(map[string]int, len(files))
		for _, f := range files {
			count[f.OrderedAs()]++
		}
		for i, f := range files {
			if count[f.OrderedAs()] > 1 {
				files[i].Original = ""
			}
		}
	}
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.OrderedAs(), b.OrderedAs()))
	})
}

// originalOf returns the location of the original of a replacement, which is in the same folder. It
// returns "" for a file that is no replacement.
func originalOf(location string) string {
	at := strings.LastIndexByte(location, '/') + 1
	found := replacementName.FindStringSubmatch(location[at:])
	if found == nil {
		return ""
	}
	return location[:at] + found[2]
}

// ReplacementPrefix returns the prefix in the name of a replacement. It returns false for a file
// that is no replacement.
func ReplacementPrefix(location string) (string, bool) {
	found := replacementName.FindStringSubmatch(path.Base(location))
	if found == nil {
		return "", false
	}
	return found[1], true
}
