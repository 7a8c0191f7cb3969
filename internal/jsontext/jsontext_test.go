package jsontext

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsAreNotEscapedForHTML(t *testing.T) {
	const filter = "a < 1 & b > '2'"
	v := map[string]string{"filter": filter}
	out, err := Encode(v)
	require.NoError(t, err)
	require.Contains(t, string(out), filter)
	require.NotContains(t, string(out), "\n")
	require.Equal(t, out, Of(v))
}

func TestValuesWithoutJSON(t *testing.T) {
	_, err := Encode(math.NaN())
	require.Error(t, err)
	require.Nil(t, Of(math.NaN()))
}
