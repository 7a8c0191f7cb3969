package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Operation is what a request was for.
type Operation string

// The operations.
const (
	OperationRead Operation = "read" // of a range
	OperationSize Operation = "size"
	// Of metadata that is committed to a catalog.
	OperationWrite  Operation = "write"
	OperationRemove Operation = "remove"
)

// Outcome is how a request ended.
type Outcome string

// The outcomes. Throttled, Failed, Silent and Broken are tried again.
const (
	OK        Outcome = "ok"
	Throttled Outcome = "throttled" // the store asks for fewer requests
	Failed    Outcome = "failed"    // the store's own fault
	Silent    Outcome = "silent"    // nothing came for too long
	Broken    Outcome = "broken"    // no connection, or another response than was asked for
	Refused   Outcome = "refused"   // by the store, or for want of credentials
	Missing   Outcome = "missing"
	Replaced  Outcome = "replaced" // another length or tag than the file had
	Cancelled Outcome = "cancelled"
)

// Request is one request as it ended.
type Request struct {
	Operation Operation
	Outcome   Outcome
	Bytes     int64 // of bodies, that came
	Again     bool  // it was not the first one of its read
	Took      time.Duration
}

// failure is what is made of an error.
type failure struct {
	outcome Outcome
	cause   error
	err     error         // what the reader gets, where that is no plain Unavailable
	passing bool          // another try may help
	expired bool          // other credentials may
	key     string        // that the request was signed with; "": none that is known
	region  string        // of the bucket, where it was asked for in another one
	after   time.Duration // when to try again, where the store says
}

// did says what the store did to who reads, or writes.
func (f failure) did(writes bool) string {
	switch f.outcome {
	case Refused:
		if writes {
			return "refuses to write"
		}
		return "refuses to read"
	case Silent, Throttled, Failed, Broken, OK, Missing, Replaced, Cancelled:
	}
	if writes {
		return "did not take"
	}
	return "did not give"
}

// remedy says what the user can do.
func (f failure) remedy(writes bool) string {
	switch f.outcome {
	case Refused:
		if writes {
			return "let the credentials (s3.access-key-id, s3.profile-name, …) write and delete objects below the tables' metadata folders"
		}
		return "see that the credentials (s3.access-key-id, s3.profile-name, …) are right and may read the bucket, and that endpoint and region are its own"
	case Throttled:
		return "try again later, or with fewer streams"
	case Silent, Failed, Broken, OK, Missing, Replaced, Cancelled:
	}
	return "see whether the store answers at s3.endpoint, and try again"
}

// outcomeOf says how a request ended that ended so.
func outcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil:
		return Cancelled
	case fault.KindOf(err) == fault.Corrupt:
		return Replaced
	case unsatisfiable(err):
		return OK // of a file that is empty, or Corrupt above
	default:
		return outcome(err)
	}
}

// outcome is that of an error.
func outcome(err error) Outcome {
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	_, unanswered := errors.AsType[*smithyhttp.RequestSendError](err)
	_, wrong := errors.AsType[brokenError](err)
	switch {
	case errors.Is(err, errSilent):
		return Silent
	case unanswered || wrong:
		return Broken
	case answered:
		return outcomeOfStatus(response.HTTPStatusCode(), codeOf(err))
	case fromCredentials(err):
		return Refused
	default:
		return Broken
	}
}

// fromCredentials says whether a request was not sent for want of credentials.
func fromCredentials(err error) bool {
	return strings.Contains(err.Error(), "get identity") || strings.Contains(err.Error(), "credentials")
}

func outcomeOfStatus(status int, code string) Outcome {
	switch {
	case status == http.StatusTooManyRequests, code == "SlowDown", code == "Throttling", code == "RequestLimitExceeded", code == "TooManyRequests":
		return Throttled
	case status == http.StatusServiceUnavailable:
		return Throttled // as S3 says it, where it says no more
	case status >= 500, status == http.StatusRequestTimeout, code == "RequestTimeout":
		return Failed
	case status == http.StatusNotFound && code == "NoSuchKey":
		return Missing // who else does not find something may not be the store
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return Replaced
	default:
		return Refused
	}
}

// codeOf is the code that S3 gives an error, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[*smithy.OperationError](err); ok && e.OperationName == "HeadObject" {
		if _, ok := errors.AsType[*types.NotFound](err); ok {
			return "NoSuchKey" // what answers a HEAD has no body to say it in
		}
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// judge says what is to be made of an error.
func (o *object) judge(err error) failure {
	if e, ok := errors.AsType[*fault.Error](err); ok { // ours, or of who gives credentials
		if e.Kind == fault.Corrupt {
			return failure{outcome: Replaced, err: err}
		}
		return failure{outcome: Refused, err: fault.Op(e, "%s %s", o.verb(), o.location)}
	}
	f := failure{outcome: outcome(err), cause: plain(err)}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch f.outcome {
	case Throttled, Failed, Silent, Broken:
		f.passing = !untrusted
	case Missing:
		f.err = store.Missing(o.location)
	case OK, Refused, Replaced, Cancelled:
	}
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || response.Response == nil {
		return f
	}
	f.after, f.key = retryAfter(response.Response.Header), keyOf(response.Response.Request)
	switch response.HTTPStatusCode() {
	case http.StatusPreconditionFailed:
		f.err = o.replaced("its ETag is not %s any more", o.Tag())
	case http.StatusRequestedRangeNotSatisfiable:
		f.err = o.shorter(response.Response.Header.Get("Content-Range"))
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest:
		f.region = regionOf(response.Response.Header)
	case http.StatusUnauthorized, http.StatusForbidden:
	}
	switch codeOf(err) {
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "RequestTimeTooSkewed":
		f.expired = true
	}
	return f
}

// keyOf is the id of the key that a request was signed with, or "".
func keyOf(r *http.Request) string {
	if r == nil {
		return ""
	}
	_, signed, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(signed, "/")
	return key
}

// shorter is the error of a file that does not have the range asked for.
func (o *object) shorter(contentRange string) error {
	size, err := strconv.ParseInt(strings.TrimPrefix(contentRange, "bytes */"), 10, 64)
	if err == nil && size != o.size {
		return store.CheckSize(o.location, size, o.size)
	}
	return o.replaced("it does not have the %d bytes that it had", o.size)
}

// unsatisfiable says whether a store has none of the bytes asked for.
func unsatisfiable(err error) bool {
	e, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && e.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable
}

// regionOf is the region that a response says, if it can be one: it becomes part of what
// is asked of the bucket from then on.
func regionOf(h http.Header) string {
	region := h.Get("X-Amz-Bucket-Region")
	if strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ""
	}
	return region
}

// retryAfter is what a response says of when to try again, in seconds; 0 where it does
// not.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second //nolint:gosec // 16 bits
}

// plain says what went wrong without the SDK's words for how it works.
func plain(err error) error {
	if sent, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return sent.Err
	}
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("status %d", response.HTTPStatusCode())
	if e, ok := errors.AsType[smithy.APIError](err); ok && e.ErrorCode() != "" {
		text += ", " + e.ErrorCode()
		if e.ErrorMessage() != "" && !strings.Contains(e.ErrorMessage(), "deserialization") {
			text += ": " + withoutSecrets(e.ErrorMessage(), response.Response)
		}
	}
	return errors.New(text)
}

// withoutSecrets is what a store says, less what it repeats of the request that nobody is
// shown.
func withoutSecrets(said string, to *smithyhttp.Response) string {
	if to == nil || to.Response == nil || to.Request == nil {
		return said
	}
	for _, header := range []string{"X-Amz-Security-Token", "Authorization"} {
		if value := to.Request.Header.Get(header); value != "" {
			said = strings.ReplaceAll(said, value, "xxxxx")
		}
	}
	return said
}
