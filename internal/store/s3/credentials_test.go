package s3_test

import (
	"net/http"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store/s3"
)

// TestNewCredentialsStay: a reader that learns late that old credentials have expired uses
// those that another reader got in the meantime, and requests no others.
func TestNewCredentialsStay(t *testing.T) {
	f := newFake(t, digits(100))
	given := &keys{}
	s := f.open(t, func(o *s3.Options) {
		o.Settings = s3.Settings{Endpoint: f.URL, PathStyle: true, Credentials: given}
	})
	asked, goOn := make(chan struct{}), make(chan struct{})
	f.answers[1] = func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-goOn
		said(400, "ExpiredToken")(w, r)
	}
	f.answers[2] = said(400, "ExpiredToken")
	read := func() error {
		o, err := s.Open(t.Context(), location, 100)
		if err != nil {
			return err
		}
		return o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0)
	}
	late := make(chan error, 1)
	go func() { late <- read() }()
	<-asked
	require.NoError(t, read())
	close(goOn)
	require.NoError(t, <-late)
	require.Equal(t, 2, given.asked)
}
