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

// Operation is store.Operation.
type Operation = store.Operation

// Outcome is store.Outcome.
type Outcome = store.Outcome

// Request is store.Request.
type Request = store.Request

// The operations.
const (
	OperationRead Operation = "read" // reads a range of a file
	OperationSize Operation = "size"
	// OperationWrite creates a whole file, sends a part, or begins or completes an upload in parts.
	OperationWrite  Operation = "write"
	OperationRemove Operation = "remove" // removes a file or an unfinished upload
	OperationList   Operation = "list"   // requests one page of a listing
)

// The outcomes. Throttled, Failed, Silent and Broken are retried.
const (
	OK        Outcome = "ok"
	Throttled Outcome = "throttled" // the store asks for fewer requests
	Failed    Outcome = "failed"    // an error of the store itself
	Silent    Outcome = "silent"    // no data arrived for too long
	Broken    Outcome = "broken"    // no connection, or a response that does not fit the request
	Refused   Outcome = "refused"   // the store refused the request, or there are no credentials
	Missing   Outcome = "missing"
	Replaced  Outcome = "replaced" // the file's length or tag has changed
	Cancelled Outcome = "cancelled"
)

// failure is an error as judge classifies it.
type failure struct {
	outcome Outcome
	cause   error
	err     error         // error for the caller; nil: the caller gets an Unavailable error with cause
	passing bool          // a retry may succeed
	expired bool          // a retry with new credentials may succeed
	key     string        // id of the key that signed the request; "" if unknown
	region  string        // the bucket's region, if the request went to another region
	after   time.Duration // delay that the store asks for, if any
}

// remedy returns the remedy for the user.
func (f failure) remedy(i intent) string {
	switch f.outcome {
	case Refused:
		return i.right()
	case Throttled:
		return "try again later, or with fewer streams"
	case Silent, Failed, Broken, OK, Missing, Replaced, Cancelled:
	}
	return "check whether the store responds at s3.endpoint, and try again"
}

// outcomeOf returns the outcome of a request, given its error or nil.
func outcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil:
		return Cancelled
	case fault.KindOf(err) == fault.Corrupt:
		return Replaced
	case unsatisfiable(err):
		return OK // the file is empty; a file that is not empty would be Corrupt, see above
	default:
		return outcome(err)
	}
}

// outcome returns the outcome of an error.
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

// fromCredentials reports whether a request was not sent because there were no credentials.
func fromCredentials(err error) bool {
	return strings.Contains(err.Error(), "get identity") || strings.Contains(err.Error(), "credentials")
}

func outcomeOfStatus(status int, code string) Outcome {
	switch {
	case status < http.StatusMultipleChoices:
		return Broken // the response was successful, but its body does not fit the request
	case status == http.StatusTooManyRequests, code == "SlowDown", code == "Throttling", code == "RequestLimitExceeded", code == "TooManyRequests":
		return Throttled
	case status == http.StatusServiceUnavailable:
		return Throttled // S3 also sends this status without a code
	case status >= 500, status == http.StatusRequestTimeout, code == "RequestTimeout":
		return Failed
	case code == "BadDigest", code == "XAmzContentSHA256Mismatch", code == "XAmzContentChecksumMismatch":
		return Broken // the content was damaged on its way to the store
	case status == http.StatusNotFound && code == "NoSuchKey":
		return Missing // a 404 with another code may come from a proxy between Penstock and the store
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return Replaced
	default:
		return Refused
	}
}

// codeOf returns S3's code of an error, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[*smithy.OperationError](err); ok && e.OperationName == "HeadObject" {
		if _, ok := errors.AsType[*types.NotFound](err); ok {
			return "NoSuchKey" // the response to a HEAD has no body for the code
		}
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// judge classifies an error.
func (o *object) judge(err error) failure {
	if e, ok := errors.AsType[*fault.Error](err); ok { // an error of this package or of the source of credentials
		if e.Kind == fault.Corrupt {
			return failure{outcome: Replaced, err: err}
		}
		return failure{outcome: Refused, err: fault.Op(e, "%s %s", o.does.verb(), o.location)}
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

// keyOf returns the id of the key with which a request was signed, or "".
func keyOf(r *http.Request) string {
	if r == nil {
		return ""
	}
	_, signed, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(signed, "/")
	return key
}

// shorter returns the error for a file that does not have the requested range.
func (o *object) shorter(contentRange string) error {
	size, err := strconv.ParseInt(strings.TrimPrefix(contentRange, "bytes */"), 10, 64)
	if err == nil && size != o.size {
		return store.CheckSize(o.location, size, o.size)
	}
	return o.replaced("it does not have the %d bytes that it had", o.size)
}

// unsatisfiable reports whether a file has none of the requested bytes.
func unsatisfiable(err error) bool {
	e, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && e.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable
}

// regionOf returns the region that a response names, or "" if it is not well-formed. Later requests
// to the bucket are sent to this region.
func regionOf(h http.Header) string {
	region := h.Get("X-Amz-Bucket-Region")
	if strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ""
	}
	return region
}

// retryAfter returns the delay that a response asks for, or 0.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second //nolint:gosec // 16 bits
}

// plain returns an error without the parts that only describe the SDK's internals.
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

// withoutSecrets returns a store's message without the secrets of the request, which some
// stores repeat.
func withoutSecrets(message string, to *smithyhttp.Response) string {
	if to == nil || to.Response == nil || to.Request == nil {
		return message
	}
	for _, header := range []string{"X-Amz-Security-Token", "Authorization"} {
		if value := to.Request.Header.Get(header); value != "" {
			message = strings.ReplaceAll(message, value, "xxxxx")
		}
	}
	return message
}
