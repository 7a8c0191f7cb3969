// Package sigv4 signs HTTP requests without a body as AWS has it (Signature Version 4).
package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/penstock/penstock/internal/fault"
)

// New makes what signs requests to a service, with keys that are asked for each time.
func New(keys aws.CredentialsProvider, region, service string, clock func() time.Time) func(*http.Request) error {
	signer := v4.NewSigner()
	nothing := sha256.Sum256(nil)
	return func(r *http.Request) error {
		key, err := keys.Retrieve(r.Context())
		if err != nil {
			return fault.New(fault.Unavailable, "no keys to sign requests to the catalog with: %w", err).
				WithRemedy("name keys in the catalog's block (client.access-key-id, client.secret-access-key), or give the server some as the AWS SDK finds them")
		}
		return signer.SignHTTP(r.Context(), key, r, hex.EncodeToString(nothing[:]), service, region, clock())
	}
}
