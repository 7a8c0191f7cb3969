package s3

import (
	"context"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

var _ store.FolderLister = (*Store)(nil)

// List implements store.FolderLister. It makes no request before the first page.
func (s *Store) List(ctx context.Context, folder string) (store.FolderListing, error) {
	return s.list(ctx, folder, (*keyListing).files)
}

// Unfinished implements store.FolderLister, as List does.
func (s *Store) Unfinished(ctx context.Context, folder string) (store.FolderListing, error) {
	return s.list(ctx, folder, (*keyListing).uploads)
}

// Discard implements store.FolderLister.
func (s *Store) Discard(ctx context.Context, unfinished store.FolderEntry) error {
	if unfinished.Upload == "" {
		return fault.New(fault.Internal, "file %s is not an unfinished upload", unfinished.Location).In("", unfinished.Location)
	}
	return s.discard(ctx, unfinished.Location, unfinished.Upload)
}

// keyListing is a listing that is requested one page at a time.
type keyListing struct {
	folder *object // the folder, whose key ends with a slash or is empty
	root   string  // the part of a location that precedes the key
	next   func(l *keyListing, ctx context.Context) ([]store.FolderEntry, error)
	after  position
	ended  bool
}

// position is where a page begins.
type position struct {
	token       *string // for a listing of files
	key, upload *string // for a listing of uploads
}

func (s *Store) list(ctx context.Context, folder string, next func(*keyListing, context.Context) ([]store.FolderEntry, error)) (store.FolderListing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bucket, key, err := splitFolder(folder)
	if err != nil {
		return nil, err
	}
	if key = strings.TrimRight(key, "/"); key != "" {
		key += "/"
	}
	scheme, _, _ := strings.Cut(folder, ":")
	o := &object{store: s, location: folder, bucket: bucket, key: key, does: lists}
	return &keyListing{folder: o, root: scheme + "://" + bucket + "/", next: next}, nil
}

// Next implements store.FolderListing.
func (l *keyListing) Next(ctx context.Context) ([]store.FolderEntry, bool, error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if l.ended {
		return nil, false, nil
	}
	var page []store.FolderEntry
	err := l.folder.store.retry(ctx, l.folder, func(ctx context.Context, t *try) (err error) {
		t.operation = OperationList
		page, err = l.next(l, ctx)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return page, !l.ended, nil
}

// Close implements store.FolderListing.
func (l *keyListing) Close() error { return nil }

// files requests one page of files.
func (l *keyListing) files(ctx context.Context) ([]store.FolderEntry, error) {
	o := l.folder
	out, err := o.store.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &o.bucket, Prefix: &o.key, ContinuationToken: l.after.token, EncodingType: types.EncodingTypeUrl, MaxKeys: aws.Int32(store.MaxPage),
	}, o.store.in(o.bucket))
	if err != nil {
		return nil, err
	}
	if aws.ToString(out.Name) == "" {
		return nil, broken("a response that is not a list of a bucket")
	}
	page := make([]store.FolderEntry, 0, len(out.Contents))
	for _, c := range out.Contents {
		location, err := l.locate(c.Key, out.EncodingType)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(location, "/") { // an empty file that marks a folder
			continue
		}
		page = append(page, store.FolderEntry{Location: location, Size: aws.ToInt64(c.Size), Modified: aws.ToTime(c.LastModified)})
	}
	return page, l.advance(aws.ToBool(out.IsTruncated), position{token: out.NextContinuationToken})
}

// uploads requests one page of unfinished uploads.
func (l *keyListing) uploads(ctx context.Context) ([]store.FolderEntry, error) {
	o := l.folder
	out, err := o.store.client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{
		Bucket: &o.bucket, Prefix: &o.key, KeyMarker: l.after.key, UploadIdMarker: l.after.upload, EncodingType: types.EncodingTypeUrl,
		MaxUploads: aws.Int32(store.MaxPage),
	}, o.store.in(o.bucket))
	if err != nil {
		return nil, err
	}
	if aws.ToString(out.Bucket) == "" {
		return nil, broken("a response that is not a list of a bucket's uploads")
	}
	page := make([]store.FolderEntry, 0, len(out.Uploads))
	for _, u := range out.Uploads {
		location, err := l.locate(u.Key, out.EncodingType)
		if err != nil {
			return nil, err
		}
		if aws.ToString(u.UploadId) == "" {
			return nil, broken("an upload without an id")
		}
		page = append(page, store.FolderEntry{Location: location, Size: store.SizeUnknown, Modified: aws.ToTime(u.Initiated), Upload: *u.UploadId})
	}
	next := position{key: out.NextKeyMarker, upload: out.NextUploadIdMarker}
	if next.key != nil && out.EncodingType == types.EncodingTypeUrl {
		key, err := url.QueryUnescape(*next.key)
		if err != nil {
			return nil, broken("%q as an encoded key", *next.key)
		}
		next.key = &key
	}
	return page, l.advance(aws.ToBool(out.IsTruncated), next)
}

// locate returns the location of a key in a response. A key outside of the folder makes the
// response a broken one.
func (l *keyListing) locate(key *string, encoding types.EncodingType) (string, error) {
	name := aws.ToString(key)
	if encoding == types.EncodingTypeUrl {
		decoded, err := url.QueryUnescape(name)
		if err != nil {
			return "", broken("%q as an encoded key", name)
		}
		name = decoded
	}
	if !strings.HasPrefix(name, l.folder.key) {
		return "", broken("key %q, which is not in the folder", name)
	}
	return l.root + name, nil
}

// advance records where the next page begins. more is whether there is a next page.
func (l *keyListing) advance(more bool, next position) error {
	same := aws.ToString(next.token) == aws.ToString(l.after.token) && aws.ToString(next.key) == aws.ToString(l.after.key) &&
		aws.ToString(next.upload) == aws.ToString(l.after.upload)
	if more && same {
		return broken("a page that does not say where the next one begins")
	}
	l.after, l.ended = next, !more
	return nil
}
