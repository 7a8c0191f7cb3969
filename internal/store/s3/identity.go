package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Identity returns the credentials and the region for other services than S3. No request
// is made before the credentials are retrieved.
func (s Settings) Identity(ctx context.Context) (keys aws.CredentialsProvider, region string, err error) {
	cfg, err := s.load(ctx)
	return cfg.Credentials, cfg.Region, err
}
