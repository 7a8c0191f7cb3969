// Package datasettest creates test values for queries and cursors: filters, values with every
// field set, and checksums for edited cursors.
package datasettest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

var ofSum = regexp.MustCompile(`,"sum":"[^"]*"}$`)

// Summed returns the compact text of a cursor with a correct checksum. The fields must be
// in the order of the specification. Summed follows the specification and shares no code
// with the product.
func Summed(cursor string) string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(cursor)); err != nil {
		return cursor
	}
	text := ofSum.ReplaceAllString(compact.String(), "}")
	sum := sha256.Sum256([]byte(text))
	return strings.TrimSuffix(text, "}") + fmt.Sprintf(`,"sum":"%x"}`, sum[:8])
}
