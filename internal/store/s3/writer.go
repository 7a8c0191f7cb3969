package s3

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/penstock/penstock/internal/store"
)

var _ store.Writer = (*Store)(nil)

// Create creates a file by one request, on the condition that it does not exist
// (If-None-Match). A request that failed may have created it all the same. Then the
// condition of the retry fails, which counts as success.
func (s *Store) Create(ctx context.Context, location string, content []byte) error {
	exists, tries := false, 0
	err := s.write(ctx, location, func(ctx context.Context, t *try, o *object) error {
		t.operation = OperationWrite
		tries++
		_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &o.bucket, Key: &o.key, Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))), IfNoneMatch: aws.String("*"),
		}, s.in(o.bucket))
		switch statusOfError(err) {
		case http.StatusPreconditionFailed:
			exists = tries == 1
			return nil
		case http.StatusConflict: // another request for the key is running
			return broken("no answer that counts: %v", plain(err))
		}
		return err
	})
	if err == nil && exists {
		return store.Exists(location)
	}
	return err
}

// Remove removes a file.
func (s *Store) Remove(ctx context.Context, location string) error {
	return s.write(ctx, location, func(ctx context.Context, t *try, o *object) error {
		t.operation = OperationRemove
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.bucket, Key: &o.key}, s.in(o.bucket))
		return err
	})
}

func (s *Store) write(ctx context.Context, location string, once func(context.Context, *try, *object) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bucket, key, err := split(location)
	if err != nil {
		return err
	}
	o := &object{store: s, location: location, bucket: bucket, key: key, does: writes}
	return s.retry(ctx, o, func(ctx context.Context, t *try) error { return once(ctx, t, o) })
}

// statusOfError returns the status of a response that is an error, or 0.
func statusOfError(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.Response != nil {
		return response.HTTPStatusCode()
	}
	return 0
}
