package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/s3"
)

// TestNewCredentialsStay: a reader that fails late because old credentials have expired uses
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

// keys gives keys that are numbered.
type keys struct{ asked int }

func (k *keys) Retrieve(context.Context) (aws.Credentials, error) {
	k.asked++
	return aws.Credentials{AccessKeyID: fmt.Sprint("key", k.asked), SecretAccessKey: "secret"}, nil
}

// TestExpiredCredentials are refreshed once per read.
//
// spec: storage-7
func TestExpiredCredentials(t *testing.T) {
	f := newFake(t, digits(100))
	given := &keys{}
	s := f.open(t, func(o *s3.Options) {
		o.Settings = s3.Settings{Endpoint: f.URL, PathStyle: true, Credentials: given}
	})
	f.answers[2] = said(400, "ExpiredToken")
	o, err := s.Open(t.Context(), location, 100)
	require.NoError(t, err)
	p := make([]byte, 10)
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
	require.Equal(t, 2, given.asked)
	require.Contains(t, f.requests[1].Header.Get("Authorization"), "Credential=key1/")
	require.Contains(t, f.requests[2].Header.Get("Authorization"), "Credential=key2/")
	f.answers[0] = said(403, "ExpiredToken")
	err = o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Equal(t, 5, f.count())
}

type noKeys struct{ err error }

func (k noKeys) Retrieve(context.Context) (aws.Credentials, error) { return aws.Credentials{}, k.err }

// TestNoCredentials: what is wrong with them comes as it is.
func TestNoCredentials(t *testing.T) {
	f := newFake(t, digits(100))
	for _, c := range []struct {
		err  error
		kind fault.Kind
		text string
	}{
		{fault.New(fault.Expired, "the catalog gives none"), fault.Expired, "read " + location + ": the catalog gives none"},
		{errors.New("none here"), fault.Unavailable, "none here"},
	} {
		s := f.open(t, func(o *s3.Options) {
			o.Settings = s3.Settings{Endpoint: f.URL, PathStyle: true, Credentials: noKeys{c.err}}
		})
		o, err := s.Open(t.Context(), location, 100)
		require.NoError(t, err)
		err = o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0)
		require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, c.text)
	}
	require.Zero(t, f.count())
}

// TestAnonymous requests are not signed.
func TestAnonymous(t *testing.T) {
	f := newFake(t, digits(100))
	s := f.open(t, func(o *s3.Options) { o.Settings = s3.Settings{Endpoint: f.URL, PathStyle: true, Anonymous: true} })
	o, err := s.Open(t.Context(), location, 100)
	require.NoError(t, err)
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0))
	require.Empty(t, f.requests[0].Header.Get("Authorization"))
}

// TestNoSecretsInErrors: no error shows a key, whatever the store responds.
//
// spec: storage-9
func TestNoSecretsInErrors(t *testing.T) {
	f := newFake(t, digits(10))
	f.answers[0] = said(403, "SignatureDoesNotMatch")
	s := f.open(t, func(o *s3.Options) {
		o.Settings.Endpoint = strings.Replace(f.URL, "http://", "http://user:hunter2@", 1)
		o.Settings.SecretAccessKey, o.Settings.SessionToken = "hunter2", "hunter2"
	})
	o, err := s.Open(t.Context(), location, 10)
	require.NoError(t, err)
	err = o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}
