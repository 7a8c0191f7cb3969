package promote

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// filePrefix returns the prefix of the names of files that have a promotion's columns. It includes
// the field id of the first column: if the schemas with these columns are removed from the table,
// the same promotion gets other field ids, which the existing files lack.
func filePrefix(id string, first int) string {
	return commit.FilePrefix("promotion-" + id + "-" + strconv.Itoa(first))
}

// maxMarks is the maximum number of earlier promotions in a file name.
const maxMarks = 8

// hasPromotion reports whether a file has the columns of the promotion with a prefix: that
// promotion wrote the file, or a later one copied such a file. This package names all such files.
func hasPromotion(location, prefix string) bool {
	name := path.Base(location)
	if strings.HasPrefix(name, prefix+"-") {
		return true
	}
	parts := strings.Split(strings.TrimSuffix(name, fileExtension), "-")
	return commit.Owned(location) && len(parts) > unmarkedParts && slices.Contains(parts[unmarkedParts:], strings.TrimPrefix(prefix, commit.OwnPrefix))
}

const (
	fileExtension = ".parquet"
	// unmarkedParts is the number of parts of a name before the marks: two for the prefix, one for
	// the attempt, and one for the file number.
	unmarkedParts = 4
)

// has reports whether a file has the new columns.
func (p *promoting) has(location string) bool { return hasPromotion(location, p.prefix) }
