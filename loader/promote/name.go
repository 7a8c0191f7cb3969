package promote

import (
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// filePrefix returns the prefix of the names of files that have a promotion's columns. It includes
// the field id of the first column: if the schemas with these columns are removed from the table,
// the same promotion gets other field ids, which the existing files lack.
func filePrefix(id string, first int) string {
	return commit.FilePrefix("promotion-" + id + "-" + strconv.Itoa(first))
}

// maxName is the number of bytes that a file name may have in local file systems.
const maxName = 255

// hasPromotion reports whether a file has the columns of the promotion that has the given prefix.
// This is so if that promotion wrote the file, or if a later promotion copied a file with these
// columns. The names of all such files come from this package.
func hasPromotion(location, prefix string) bool {
	own, ok := catalog.ReplacementPrefix(location)
	if !ok {
		return false
	}
	if strings.HasPrefix(own, prefix+"-") {
		return true
	}
	parts := strings.Split(own, "-")
	return len(parts) > unmarkedParts && slices.Contains(parts[unmarkedParts:], strings.TrimPrefix(prefix, commit.OwnPrefix))
}

// unmarkedParts is the number of parts of a file name's prefix before the marks: two for the
// promotion, one for the attempt, and one for the file number.
const unmarkedParts = 4

// has reports whether a file has the new columns.
func (p *promoting) has(location string) bool { return hasPromotion(location, p.prefix) }
