package s3

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/penstock/penstock/internal/store"
)

var _ store.Writer = (*Store)(nil)

// Create creates a file like an upload of one part, but does not copy content.
func (s *Store) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bucket, key, err := split(location)
	if err != nil {
		return err
	}
	u := s.newUpload(&object{store: s, location: location, bucket: bucket, key: key, does: writes})
	u.filling = &buffer{content: content.Bytes()}
	return u.putWhole(ctx)
}

// Remove removes a file.
func (s *Store) Remove(ctx context.Context, location string) error {
	return s.remove(ctx, location, func(ctx context.Context, o *object) error {
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.bucket, Key: &o.key}, s.in(o.bucket))
		return err
	})
}

// remove makes a request that removes a file or an unfinished upload, if it exists.
func (s *Store) remove(ctx context.Context, location string, request func(context.Context, *object) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bucket, key, err := split(location)
	if err != nil {
		return err
	}
	o, lost := &object{store: s, location: location, bucket: bucket, key: key, does: writes}, false
	err = s.retry(ctx, o, func(ctx context.Context, t *try) error {
		t.operation = OperationRemove
		err := request(ctx, o)
		lost = lost || err != nil && !rejected(err)
		return err
	})
	if lost {
		return store.WithUnknownOutcome(err)
	}
	return err
}

// statusOfError returns the status of a response that is an error, or 0.
func statusOfError(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.Response != nil {
		return response.HTTPStatusCode()
	}
	return 0
}
