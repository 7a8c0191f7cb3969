package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlotsThatAreTooSmallAreAnError(t *testing.T) {
	forms, err := draw(1, 20, 1)
	require.NoError(t, err)
	_, err = copyInto(make([]byte, 100), forms[plain], 0)
	require.ErrorContains(t, err, "does not fit in 100 bytes")
}
