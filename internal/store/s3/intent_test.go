package s3

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The remedies of failures name properties that exist.
func TestRemediesNameProperties(t *testing.T) {
	for _, i := range []intent{reads, writes, lists} {
		names := regexp.MustCompile(`s3\.[a-z-]+`).FindAllString(i.right(), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			require.Contains(t, properties(), name)
		}
	}
}
