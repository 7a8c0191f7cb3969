package sigv4_test

import (
	"context"
	"errors"
	"net/http"
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
