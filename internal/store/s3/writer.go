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

// Create makes a file by one request, on the condition that there is none
// (If-None-Match). The first request may have made the file although it failed: then the
// condition of the next one does, and the file is ours.
func (s *Store) Create(ctx context.Context, location string, content []byte) error {
	there, asked := false, 0
	err := s.write(ctx, location, func(ctx context.Context, t *try, o *object) error {
		t.operation = OperationWrite
		asked++
		_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &o.bucket, Key: &o.key, Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))), IfNoneMatch: aws.String("*"),
		}, s.in(o.bucket))
		switch statusOfError(err) {
		case http.StatusPreconditionFailed:
			there = asked == 1
			return nil
		case http.StatusConflict: // another request for the key runs
			return broken("no answer that counts: %v", plain(err))
		}
		return err
	})
	if err == nil && there {
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
	o := &object{store: s, location: location, bucket: bucket, key: key, writes: true}
	return s.retry(ctx, o, func(ctx context.Context, t *try) error { return once(ctx, t, o) })
}

// statusOfError is that of a response that is a failure, or 0.
func statusOfError(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.Response != nil {
		return response.HTTPStatusCode()
	}
	return 0
}
