package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/penstock/penstock/internal/store"
)

// fetch requests len(p) bytes from off on and reads them into p, without retries. It returns how
// many bytes arrived, even if it returns an error.
func (o *object) fetch(ctx context.Context, t *try, p []byte, off int64) (int, error) {
	out, err := o.get(ctx, t, off, off+int64(len(p))-1)
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Body.Close() }()
	first, last, total, err := o.check(out)
	switch {
	case err != nil:
		return 0, err
	case first != off || last != off+int64(len(p))-1:
		return 0, broken("bytes %d to %d in place of %d to %d", first, last, off, off+int64(len(p))-1)
	case total != o.size:
		return 0, store.CheckSize(o.location, total, o.size)
	}
	if err := o.tagged(aws.ToString(out.ETag)); err != nil {
		return 0, err
	}
	return t.fill(p, out.Body)
}

// fetchHead requests the first bytes of a file, without retries. It returns how many bytes arrived.
// It sets size and tag, and allocates head, before it fills head.
func (o *object) fetchHead(ctx context.Context, t *try) (int, error) {
	out, err := o.get(ctx, t, 0, headBytes-1)
	if unsatisfiable(err) { // the store cannot satisfy any range of an empty file
		return 0, o.fetchSize(ctx, t)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Body.Close() }()
	if statusOf(out) == http.StatusOK && aws.ToInt64(out.ContentLength) == 0 { // the response of some stores for an empty file
		return 0, o.fetchSize(ctx, t)
	}
	first, last, total, err := o.check(out)
	if err != nil {
		return 0, err
	}
	if want := min(headBytes, total); first != 0 || last != want-1 {
		return 0, broken("bytes %d to %d of %d in place of the first %d", first, last, total, want)
	}
	if err := o.tagged(aws.ToString(out.ETag)); err != nil {
		return 0, err
	}
	o.size, o.head = total, make([]byte, last+1)
	return t.fill(o.head, out.Body)
}

// fetchSize requests the size of a file that may be empty.
func (o *object) fetchSize(ctx context.Context, t *try) error {
	t.operation = OperationSize
	out, err := o.store.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &o.bucket, Key: &o.key}, o.store.in(o.bucket))
	switch {
	case err != nil:
		return err
	case aws.ToInt64(out.ContentLength) != 0:
		return broken("no range of a file that has %d bytes", aws.ToInt64(out.ContentLength))
	}
	o.size, o.head = 0, []byte{}
	return o.tagged(aws.ToString(out.ETag))
}

// get requests a range. The caller closes the body.
func (o *object) get(ctx context.Context, t *try, first, last int64) (*s3.GetObjectOutput, error) {
	in := &s3.GetObjectInput{Bucket: &o.bucket, Key: &o.key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", first, last))}
	if tag := o.Tag(); tag != "" {
		in.IfMatch = &tag
	}
	t.operation = OperationRead
	return o.store.client.GetObject(ctx, in, o.store.in(o.bucket))
}

// check checks that a response has a range of a file. It returns the range and the file's length.
func (o *object) check(out *s3.GetObjectOutput) (first, last, total int64, err error) { //nolint:revive // one thing in three numbers
	if status := statusOf(out); status != http.StatusPartialContent {
		return 0, 0, 0, broken("status %d in place of a part of the file (206)", status)
	}
	text := aws.ToString(out.ContentRange)
	first, last, total, ok := contentRange(text)
	if !ok {
		return 0, 0, 0, broken("%q as the range of what follows", text)
	}
	if out.ContentLength != nil && *out.ContentLength != last-first+1 {
		return 0, 0, 0, broken("%d bytes in place of %d", *out.ContentLength, last-first+1)
	}
	return first, last, total, nil
}

func statusOf(out *s3.GetObjectOutput) int {
	if raw, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		return raw.StatusCode
	}
	return 0
}

// contentRange parses "bytes 0-9/100".
func contentRange(text string) (first, last, total int64, ok bool) { //nolint:revive // one thing in three numbers
	rest, unit := strings.CutPrefix(text, "bytes ")
	span, size, slash := strings.Cut(rest, "/")
	from, to, dash := strings.Cut(span, "-")
	numbers := make([]int64, 0, 3)
	for _, part := range []string{from, to, size} {
		n, err := strconv.ParseUint(part, 10, 63)
		if err != nil {
			return 0, 0, 0, false
		}
		numbers = append(numbers, int64(n)) //nolint:gosec // 63 bits
	}
	first, last, total = numbers[0], numbers[1], numbers[2]
	return first, last, total, unit && slash && dash && first <= last && last < total
}

// fill reads a body, which must have exactly len(p) bytes, into p.
func (t *try) fill(p []byte, body io.Reader) (int, error) {
	n := 0
	for n < len(p) {
		m, err := body.Read(p[n:])
		n += m
		t.progress(m)
		if err != nil && n < len(p) {
			if errors.Is(err, io.EOF) {
				return n, broken("a body that ends after %d of %d bytes", n, len(p))
			}
			return n, fmt.Errorf("after %d of %d bytes: %w", n, len(p), err)
		}
	}
	// The connection can serve another request only after the end of the body was read.
	var more [1]byte
	if m, err := io.ReadFull(body, more[:]); m > 0 || !errors.Is(err, io.EOF) {
		return 0, broken("a body that does not end after %d bytes", len(p))
	}
	return n, nil
}
