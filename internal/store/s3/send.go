package s3

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// markName is the name of an upload's mark in the metadata of its file.
const markName = "penstock-upload"

// checksum returns the CRC-32C of a content, in the form in which requests contain it.
func checksum(content []byte) *string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
	return aws.String(base64.StdEncoding.EncodeToString(sum))
}

// sameSum returns an error if a response has another checksum than the request.
func sameSum(got, want *string) error {
	if got != nil && *got != *want {
		return broken("checksum %s for content whose checksum is %s", *got, *want)
	}
	return nil
}

// send starts to send the part that was filled, so that the next part can be filled meanwhile.
func (u *upload) send(ctx context.Context) error {
	if u.id == "" {
		if err := u.begin(ctx); err != nil {
			return err
		}
	}
	if u.sent == maxParts {
		return u.tooLong()
	}
	b := u.filling
	u.filling = nil
	u.sent++
	number := u.sent
	u.flying.Go(func() error {
		defer u.landed(b)
		if err := u.putPart(number, b.content); err != nil {
			u.end(err) // only the first error has an effect
		}
		return nil
	})
	return nil
}

// begin begins an upload in parts.
func (u *upload) begin(ctx context.Context) error {
	o := u.file
	return u.store.retry(ctx, o, func(ctx context.Context, t *try) error {
		t.operation = OperationWrite
		out, err := u.store.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
			Bucket: &o.bucket, Key: &o.key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, Metadata: map[string]string{markName: u.mark},
		}, u.store.in(o.bucket))
		if err != nil {
			return err
		}
		if u.id = aws.ToString(out.UploadId); u.id == "" {
			return broken("an upload without an id")
		}
		return nil
	})
}

// putPart sends one part.
func (u *upload) putPart(number int, content []byte) error {
	o, sum := u.file, checksum(content)
	part := types.CompletedPart{PartNumber: aws.Int32(int32(number)), ChecksumCRC32C: sum} //nolint:gosec // up to maxParts
	err := u.store.retry(u.life, o, func(ctx context.Context, t *try) error {
		t.operation = OperationWrite
		b := &body{try: t, content: content}
		defer b.take()
		out, err := u.store.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &o.bucket, Key: &o.key, UploadId: &u.id, PartNumber: part.PartNumber,
			Body: b, ContentLength: aws.Int64(int64(len(content))), ChecksumCRC32C: sum,
		}, u.store.in(o.bucket))
		if err != nil {
			return err
		}
		if part.ETag = out.ETag; aws.ToString(out.ETag) == "" {
			return broken("a part without an ETag")
		}
		return sameSum(out.ChecksumCRC32C, sum)
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts = append(u.parts, part)
	return nil
}

// putWhole creates a file of one part.
func (u *upload) putWhole(ctx context.Context) error {
	var content []byte
	if u.filling != nil {
		content = u.filling.content
	}
	o, sum := u.file, checksum(content)
	return u.publish(ctx, func(ctx context.Context, t *try) error {
		b := &body{try: t, content: content}
		defer b.take()
		out, err := u.store.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &o.bucket, Key: &o.key, Body: b, ContentLength: aws.Int64(int64(len(content))), ChecksumCRC32C: sum,
			IfNoneMatch: aws.String("*"), Metadata: map[string]string{markName: u.mark},
		}, u.store.in(o.bucket))
		if err != nil {
			return err
		}
		if aws.ToString(out.ETag) == "" {
			return broken("a file without an ETag")
		}
		return sameSum(out.ChecksumCRC32C, sum)
	})
}

// complete creates a file from the parts that were sent.
func (u *upload) complete(ctx context.Context) error {
	o := u.file
	slices.SortFunc(u.parts, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	return u.publish(ctx, func(ctx context.Context, _ *try) error {
		out, err := u.store.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &o.bucket, Key: &o.key, UploadId: &u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
			IfNoneMatch: aws.String("*"),
		}, u.store.in(o.bucket))
		if err == nil && aws.ToString(out.ETag) == "" {
			return broken("a file without an ETag")
		}
		return err
	})
}

// publish makes a request that creates the file, on the condition that it does not exist. The
// answer to such a request may be lost. If a later request is then refused because the file exists,
// or because the upload no longer exists, the mark of the file shows whether this upload created
// it.
func (u *upload) publish(ctx context.Context, request func(context.Context, *try) error) error {
	lost, exists := false, false
	err := u.store.retry(ctx, u.file, func(ctx context.Context, t *try) error {
		t.operation = OperationWrite
		err := request(ctx, t)
		status, gone := statusOfError(err), codeOf(err) == "NoSuchUpload"
		switch {
		case err == nil:
			return nil
		case status == http.StatusPreconditionFailed && !lost:
			exists = true
			return nil
		case status == http.StatusPreconditionFailed || gone:
			mine, found, err := u.find(ctx)
			if err == nil && !found {
				return u.vanished(gone)
			}
			exists = err == nil && !mine
			return err
		case status == http.StatusConflict: // another request that creates the same key is running
			return broken("no answer that counts: %v", plain(err))
		}
		lost = lost || !rejected(err)
		return err
	})
	switch {
	case err == nil && exists:
		return store.Exists(u.file.location)
	case lost && !errors.Is(err, errDiscarded):
		return store.WithUnknownOutcome(err)
	}
	return err
}

// errDiscarded is the cause of the error for an upload that the store no longer has.
var errDiscarded = errors.New("it no longer has the parts that were sent")

// vanished returns the error for a file that is not there, although an earlier response said that
// it is or, if upload is set, although the upload no longer exists.
func (u *upload) vanished(upload bool) error {
	if !upload {
		return broken("a file that was there and is not")
	}
	return fault.New(fault.Unavailable, "the store did not take file %s: %w", u.file.location, errDiscarded).In("", u.file.location).
		WithRemedy("check whether a lifecycle rule or another program aborts uploads of this bucket, and write the file again")
}

// find reports whether the file exists, and whether this upload created it.
func (u *upload) find(ctx context.Context) (mine, found bool, err error) {
	o := u.file
	out, err := u.store.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &o.bucket, Key: &o.key}, u.store.in(o.bucket))
	if codeOf(err) == "NoSuchKey" {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	return out.Metadata[markName] == u.mark, true, nil
}

// rejected reports whether it is certain that a failed request had no effect.
func rejected(err error) bool {
	if _, ours := errors.AsType[*fault.Error](err); ours {
		return true // the request was not sent, because there were no credentials
	}
	status := statusOfError(err)
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout || status == 0 && fromCredentials(err)
}
