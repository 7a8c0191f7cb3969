package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Identity returns the credentials and the region for requests to services other than S3. It makes
// no request; the first use of the credentials may make one.
func (s Settings) Identity(ctx context.Context) (keys aws.CredentialsProvider, region string, err error) {
	cfg, err := s.load(ctx)
	return cfg.Credentials, cfg.Region, err
}
