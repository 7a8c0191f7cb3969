package s3_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
)

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }
}

// TestPagesOfFiles: each page is one request, which begins where the page before it ended.
// Marks of folders are not files.
//
// spec: storage-36
func TestPagesOfFiles(t *testing.T) {
	f := newFake(t, nil)
	f.answers[1] = says(`<ListBucketResult><Name>bucket</Name><IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>
		<EncodingType>url</EncodingType><Contents><Key>t/a%2Bb+c%251</Key><Size>5</Size><LastModified>2026-10-05T00:00:00Z</LastModified></Contents></ListBucketResult>`)
	f.answers[2] = said(503, "SlowDown")
	f.answers[3] = says(`<ListBucketResult><Name>bucket</Name><IsTruncated>true</IsTruncated><NextContinuationToken>last</NextContinuationToken>
		<Contents><Key>t/</Key><Size>0</Size></Contents><Contents><Key>t/d/</Key><Size>0</Size></Contents></ListBucketResult>`)
	f.answers[4] = says(`<ListBucketResult><Name>bucket</Name><Contents><Key>t/d/e%2F+</Key><Size>7</Size></Contents></ListBucketResult>`)
	got := storetest.Entries(t, f.open(t, nil).List, "s3a://bucket/t/")
	require.Len(t, got, 2)
	require.Equal(t, "s3a://bucket/t/a+b c%1", got[0].Location)
	require.Equal(t, int64(5), got[0].Size)
	require.Equal(t, 2026, got[0].Modified.Year())
	require.Equal(t, "s3a://bucket/t/d/e%2F+", got[1].Location, "not encoded")
	require.Equal(t, 4, f.count())
	for i, token := range []string{"", "next", "next", "last"} {
		query := f.requests[i].URL.Query()
		require.Equal(t, token, query.Get("continuation-token"))
		require.Equal(t, "t/", query.Get("prefix"))
		require.Empty(t, query.Get("delimiter"))
	}
}

// TestPagesOfUploads as TestPagesOfFiles.
//
// spec: storage-37
func TestPagesOfUploads(t *testing.T) {
	f := newFake(t, nil)
	f.answers[1] = says(`<ListMultipartUploadsResult><Bucket>bucket</Bucket><IsTruncated>true</IsTruncated><NextKeyMarker>t/a+b</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>
		<EncodingType>url</EncodingType><Upload><Key>t/a+b</Key><UploadId>1</UploadId><Initiated>2026-10-05T00:00:00Z</Initiated></Upload></ListMultipartUploadsResult>`)
	f.answers[2] = says(`<ListMultipartUploadsResult><Bucket>bucket</Bucket><Upload><Key>t/a+b</Key><UploadId>2</UploadId></Upload></ListMultipartUploadsResult>`)
	f.answers[3] = said(404, "NoSuchUpload")
	s := f.open(t, nil)
	got := storetest.Entries(t, s.Unfinished, "s3://bucket/t")
	require.Len(t, got, 2)
	require.Equal(t, store.FolderEntry{Location: "s3://bucket/t/a b", Size: store.SizeUnknown, Modified: got[0].Modified, Upload: "1"}, got[0])
	require.Equal(t, 2026, got[0].Modified.Year())
	require.Equal(t, "s3://bucket/t/a+b", got[1].Location)
	require.Equal(t, "t/a b", f.requests[1].URL.Query().Get("key-marker"))
	require.Equal(t, "1", f.requests[1].URL.Query().Get("upload-id-marker"))
	require.NoError(t, s.Discard(t.Context(), got[0]), "it was discarded before")
	require.Equal(t, http.MethodDelete, f.requests[2].Method)
	require.Equal(t, "1", f.requests[2].URL.Query().Get("uploadId"))
}

// TestBuckets are folders too.
func TestBuckets(t *testing.T) {
	f := newFake(t, nil)
	f.answers[0] = says(`<ListBucketResult><Name>bucket</Name><Contents><Key>a</Key></Contents></ListBucketResult>`)
	for _, folder := range []string{"s3://bucket", "s3://bucket/", "s3://bucket//"} {
		require.Equal(t, "s3://bucket/a", storetest.Entries(t, f.open(t, nil).List, folder)[0].Location)
	}
	for _, wrong := range []string{"s3://", "s3:///a", "/a", "s3://a b"} {
		_, err := f.open(t, nil).List(t.Context(), wrong)
		require.Equal(t, fault.Invalid, fault.KindOf(err), wrong)
	}
}

// TestListingsThatFail: a list is never cut short without an error.
//
// spec: storage-36
func TestListingsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		text   string
		tries  int
	}{
		"refused":               {said(403, "AccessDenied"), "refuses to list folder s3://bucket/t: status 403", 1},
		"no bucket":             {said(404, "NoSuchBucket"), "refuses to list folder s3://bucket/t: status 404, NoSuchBucket", 1},
		"throttled":             {said(503, "SlowDown"), "did not list folder s3://bucket/t, 8 times", 8},
		"another folder":        {says(`<ListBucketResult><Name>bucket</Name><Contents><Key>t2/a</Key></Contents></ListBucketResult>`), `key "t2/a", which is not in the folder`, 8},
		"a page without a next": {says(`<ListBucketResult><Name>bucket</Name><IsTruncated>true</IsTruncated></ListBucketResult>`), "does not say where the next one begins", 8},
		"not a list":            {says(`<html></html>`), "not a list of a bucket", 8},
		"cut":                   {says(`<ListBucketResult><Name>bucket</Name><Contents>`), "did not list folder", 8},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			f.answers[0] = c.answer
			l, err := f.open(t, nil).List(t.Context(), "s3://bucket/t")
			require.NoError(t, err)
			page, more, err := l.Next(t.Context())
			require.Empty(t, page)
			require.False(t, more)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.Equal(t, "s3://bucket/t", fault.As(err).File)
			require.Equal(t, c.tries, f.count())
		})
	}
}
