package store

// Tagged is an Object whose storage gives each content of a file a tag of its own, as
// S3 does (ETag): what was learned of a file by one object holds for another only if
// they have the same. Objects need not be Tagged; local files are not.
type Tagged interface {
	Object
	// Tag is that of the content that was read so far: "" before the first read, or if
	// storage gave none.
	Tag() string
	// Expect says which tag the file had when what is known of it was read. If the
	// object's own is another, now or with a later read, that fails as Corrupt. "" says
	// nothing.
	Expect(tag string) error
}

// TagOf is the tag of an object; "" if it has none.
func TagOf(o Object) string {
	if t, ok := o.(Tagged); ok {
		return t.Tag()
	}
	return ""
}
