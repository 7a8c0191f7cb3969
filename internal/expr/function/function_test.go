package function

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestBindRefusesUnknownNames(t *testing.T) {
	_, err := Bind("no_such_function", nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Len(t, fault.As(err).Faults, 1)
	require.Contains(t, err.Error(), "no_such_function")
}
