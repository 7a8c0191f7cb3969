// Package sigv4 signs HTTP requests for AWS (Signature Version 4). A body is signed with
// its request, which must have http.Request.GetBody.
package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/penstock/penstock/internal/fault"
)

// New returns a function that signs requests to a service. It retrieves the credentials
// for each request.
func New(keys aws.CredentialsProvider, region, service string, clock func() time.Time) func(*http.Request) error {
	signer := v4.NewSigner()
	return func(r *http.Request) error {
		key, err := keys.Retrieve(r.Context())
		if err != nil {
			return fault.New(fault.Unavailable, "no keys to sign requests to the catalog with: %w", err).
				WithRemedy("name keys in the catalog's block (client.access-key-id, client.secret-access-key), or give the server some as the AWS SDK finds them")
		}
		sum := sha256.New()
		if r.GetBody != nil {
			body, err := r.GetBody()
			if err == nil {
				_, err = io.Copy(sum, body)
			}
			if err != nil {
				return fault.New(fault.Internal, "the body of a request cannot be signed: %w", err)
			}
		}
		return signer.SignHTTP(r.Context(), key, r, hex.EncodeToString(sum.Sum(nil)), service, region, clock())
	}
}
