package promote

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// filePrefix begins the names of files that have the columns of a promotion, given the field id of the first one: if the schemas with
// them are removed from the table, the same promotion gets other field ids, which these files do not have.
func filePrefix(id string, first int) string {
	return commit.FilePrefix("promotion-" + id + "-" + strconv.Itoa(first))
}

// maxMarks bounds the number of earlier promotions that the name of a file tells.
const maxMarks = 8

// hasPromotion reports whether a file has the columns of the promotion with a prefix: it was written by that promotion, or is a copy
// of such a file by a later one. All of these are named by this package.
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
	// unmarkedParts is the number of parts of a name before the marks: the two of the prefix, the attempt, and the number of the file.
	unmarkedParts = 4
)

// has reports whether a file has the columns.
func (p *promoting) has(location string) bool { return hasPromotion(location, p.prefix) }
