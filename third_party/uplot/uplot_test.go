package uplot_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/third_party/uplot"
)

// The files are those of the npm package.
func TestFilesAreUnchanged(t *testing.T) {
	license, err := os.ReadFile("LICENSE")
	require.NoError(t, err)
	for _, one := range []struct {
		content []byte
		digest  string
	}{
		{uplot.Script, "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"},
		{uplot.Style, "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"},
		{license, "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"},
	} {
		sum := sha256.Sum256(one.content)
		require.Equal(t, one.digest, hex.EncodeToString(sum[:]))
	}
}
