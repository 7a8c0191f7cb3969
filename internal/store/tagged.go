package store

// Tagged is an Object on storage that gives each version of a file's content a tag, such as an ETag
// of S3. If two objects of a file have equal tags, they have the same content. Not all objects are
// Tagged; local files are not.
type Tagged interface {
	Object
	// Tag returns the tag of the content that was read so far: "" before the first read
	// or if the storage gave none.
	Tag() string
	// Expect sets the tag that the file had when it was read before. If the object has another tag,
	// Expect or a later read fails with Corrupt. With "", Expect does nothing.
	Expect(tag string) error
}

// TagOf returns the tag of an object, or "" if it has none.
func TagOf(o Object) string {
	if t, ok := o.(Tagged); ok {
		return t.Tag()
	}
	return ""
}
