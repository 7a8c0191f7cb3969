package sigv4_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sigv4"
)

// The request "get-vanilla" of AWS's own test suite for signatures.
func TestVanilla(t *testing.T) {
	t.Parallel()
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, nil
	})
	clock := func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.amazonaws.com/", nil)
	require.NoError(t, err)
	require.NoError(t, sigv4.New(keys, "us-east-1", "service", clock)(r))
	require.Equal(t, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, "+
		"Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31", r.Header.Get("Authorization"))

	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("none") })
	err = sigv4.New(none, "us-east-1", "service", clock)(r)
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
}

// What is signed is the body, and signing does not use it up.
func TestBodiesAreSigned(t *testing.T) {
	t.Parallel()
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, nil
	})
	clock := func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.amazonaws.com/", strings.NewReader("Param1=value1"))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	require.NoError(t, sigv4.New(keys, "us-east-1", "service", clock)(r))
	signed := r.Header.Get("Authorization")
	require.Contains(t, signed, "SignedHeaders=content-length;content-type;host;x-amz-date, Signature=")
	again := r.Clone(t.Context())
	require.NoError(t, sigv4.New(keys, "us-east-1", "service", clock)(again))
	require.Equal(t, signed, again.Header.Get("Authorization"), "the same body has the same signature")
	other, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.amazonaws.com/", strings.NewReader("Param1=value2"))
	require.NoError(t, err)
	other.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	require.NoError(t, sigv4.New(keys, "us-east-1", "service", clock)(other))
	require.NotEqual(t, signed, other.Header.Get("Authorization"))
}
