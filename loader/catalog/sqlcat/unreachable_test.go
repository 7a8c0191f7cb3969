package sqlcat_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
)

// A database that does not answer Open is asked again by each call.
func TestDatabasesThatDoNotAnswer(t *testing.T) {
	var unreachable error
	c, err := sqlcat.Open(t.Context(), sqlcat.Options{
		Name: "prod", URI: "postgresql://u:s3cr@127.0.0.1:1/db", Timeout: time.Minute, Unreachable: func(err error) { unreachable = err },
	})
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, fault.Unavailable, fault.KindOf(unreachable))
	_, err = c.Locate(t.Context(), events())
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "check that the server of its uri responds")
}
